package ref

// Tile is a stretch of rows of one expert.
type Tile struct{ Expert, First, Rows uint32 }

// Group orders the (token, slot) pairs of ids, [tokens][topK], by expert and then by token: the token of each row, the row
// of each pair, tiles of at most height rows of one expert, and how many rows each of the experts has.
func Group(ids []uint32, topK, experts, height int) (tokens, places []uint32, tiles []Tile, loads []uint32) {
	places, loads = make([]uint32, len(ids)), make([]uint32, experts)
	for e := range uint32(experts) {
		first := len(tokens)
		for pair, id := range ids {
			if id == e {
				places[pair] = uint32(len(tokens))
				tokens = append(tokens, uint32(pair/topK))
			}
		}
		loads[e] = uint32(len(tokens) - first)
		for at := first; at < len(tokens); at += height {
			tiles = append(tiles, Tile{e, uint32(at), uint32(min(height, len(tokens)-at))})
		}
	}
	return tokens, places, tiles, loads
}

// Gather is the rows of x, [n, width], that list names.
func Gather(x []float32, width int, list []uint32) []float32 {
	var out []float32
	for _, i := range list {
		out = append(out, x[int(i)*width:(int(i)+1)*width]...)
	}
	return out
}

// ExpertRows is the product of every row of x with its expert's matrix, the rows being as loads say: loads[0] of the first
// expert, then those of the second.
func ExpertRows(experts []Matrix, loads []uint32, x []float32) []float32 {
	var out []float32
	at := 0
	for e, m := range experts {
		end := at + int(loads[e])*m.Cols
		out = append(out, LinearRows(m, x[at:end])...)
		at = end
	}
	return out
}

// Combine is h plus, for each token, the sum over its slots of weights[token][slot] times the row of experts that places
// names, and the last weight times the shared expert's row: [tokens, width].
func Combine(h, experts []float32, places []uint32, weights, shared []float32, topK, width int) []float32 {
	out := make([]float32, len(h))
	for i := range h {
		token, column := i/width, i%width
		var sum float32
		for slot := range topK {
			sum += weights[token*(topK+1)+slot] * experts[int(places[token*topK+slot])*width+column]
		}
		out[i] = h[i] + (sum + weights[token*(topK+1)+topK]*shared[i])
	}
	return out
}

// NormRows is x/rms(x)*gain of each row, len(gain) wide, not rounded.
func NormRows(x, gain []float32, eps float32) []float32 {
	out := make([]float32, 0, len(x))
	for i := 0; i < len(x); i += len(gain) {
		row := x[i : i+len(gain)]
		squares := make([]float32, len(row))
		for j, v := range row {
			squares[j] = v * v
		}
		scale := InverseRMS(squares, len(row), eps)
		for j, v := range row {
			out = append(out, v*scale*gain[j])
		}
	}
	return out
}
