package ref

// AttendChunk is Attend for the tokens of a chunk of one query head, the first at a position: queries and gates give the
// rows of token t of the chunk, keys and values those of token t of the sequence.
func AttendChunk(rows, position int, queries, gates, keys, values func(t int) []float32) [][]float32 {
	out := make([][]float32, rows)
	for t := range out {
		out[t] = Attend(queries(t), gates(t), position+t+1, keys, values)
	}
	return out
}

// AdvanceChunk computes the tokens of a chunk one after the other: row t of each of qkv, z, b and a is that of token t.
// It gives the outputs, [rows][ValueHeads*ValueDim], not rounded, and moves the window and the state on.
func (d *Delta) AdvanceChunk(qkv, z, b, a [][]float32) [][]float32 {
	out := make([][]float32, len(qkv))
	for t := range out {
		d.QKV, d.Z, d.B, d.A = qkv[t], z[t], b[t], a[t]
		out[t] = d.Advance()
	}
	return out
}
