package gpu

import (
	"math"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

func (c *checker) delta(d kernels.Delta) []output {
	step := c.uints(d.Step, 4)
	channels, values := 2*d.KeyHeads*d.KeyDim+d.ValueHeads*d.ValueDim, d.ValueHeads*d.ValueDim
	window, size := (d.Taps-1)*channels, values*d.KeyDim
	at := func(slot uint32, n int) int64 { return (int64(slot)*int64(d.Layers) + int64(d.Layer)) * int64(n) }
	proj := func(first, n int) []float32 { return c.floats(d.Proj.At(4*int64(first)), n) }
	t := ref.Delta{
		KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Taps: d.Taps, Eps: d.Eps,
		QKV: proj(d.QKV, channels), Z: proj(d.Z, values), B: proj(d.B, d.ValueHeads), A: proj(d.A, d.ValueHeads),
		ConvW: c.floats(d.ConvW, d.Taps*channels), Decay: c.floats(d.Decay, d.ValueHeads), DtBias: c.floats(d.DtBias, d.ValueHeads),
		Gain: c.floats(d.Gain, d.ValueDim),
		Conv: c.bfloats(d.Conv.At(2*at(step[2], window)), window), Recurrent: c.floats(d.Recurrent.At(4*at(step[2], size)), size),
	}
	out := t.Advance()
	return []output{
		vector("outputs", d.Out, out), bfloats("window", d.Conv.At(2*at(step[3], window)), t.Conv),
		floats("state", d.Recurrent.At(4*at(step[3], size)), t.Recurrent),
	}
}

// cache is the place of one row of keys, or of values, of the token at position of the sequence whose table is at entry
// table.
func (c *checker) cache(a kernels.AttentionShape, kv, blocks kernels.Ref, table uint32, values, head, position int) kernels.Ref {
	block := c.uints(blocks.At(4*(int64(table)+int64(position/blockTokens))), 1)[0]
	row := ((int64(block)*int64(a.Layers)+int64(a.Layer))*2+int64(values))*int64(a.KVHeads) + int64(head)
	return kv.At(2 * (row*blockTokens + int64(position%blockTokens)) * int64(a.HeadDim))
}

func (c *checker) prepare(a kernels.AttentionPrep) []output {
	step := c.uints(a.Step, 5)
	position, n := int(step[1]), a.HeadDim
	proj := func(first int) []float32 { return c.floats(a.Proj.At(4*int64(first)), n) }
	head := func(x []float32, gain kernels.Ref, scale float64) []float32 {
		return ref.Head(x, c.floats(gain, n), a.Eps, a.Rotary, c.m.shape.RopeTheta, position, scale)
	}
	var queries []float32
	for h := range a.Heads {
		queries = append(queries, head(proj(a.Q+2*h*n), a.QGain, 1/math.Sqrt(float64(n)))...)
	}
	out := []output{floats("queries", a.Out, queries)}
	for h := range a.KVHeads {
		out = append(out,
			bfloats("keys", c.cache(a.AttentionShape, a.KV, a.Table, step[4], 0, h, position), head(proj(a.K+h*n), a.KGain, 1)),
			bfloats("values", c.cache(a.AttentionShape, a.KV, a.Table, step[4], 1, h, position), proj(a.V+h*n)))
	}
	return out
}

// attend is attention in one dispatch. Where it takes two, only the second leaves what a twin knows.
func (c *checker) attend(a kernels.Attention) []output {
	if a.Splits > 1 {
		return nil
	}
	return c.merge(a)
}

func (c *checker) merge(a kernels.Attention) []output {
	step, n := c.uints(a.Step, 5), a.HeadDim
	length := int(step[1]) + 1
	var out []float32
	for h := range a.Heads {
		row := func(values int) func(t int) []float32 {
			return func(t int) []float32 {
				return c.bfloats(c.cache(a.AttentionShape, a.KV, a.Table, step[4], values, h/(a.Heads/a.KVHeads), t), n)
			}
		}
		q, gate := c.floats(a.Queries.At(4*int64(h*n)), n), c.floats(a.Proj.At(4*int64(a.Q+(2*h+1)*n)), n)
		out = append(out, ref.Attend(q, gate, length, row(0), row(1))...)
	}
	return []output{vector("outputs", a.Out, out)}
}
