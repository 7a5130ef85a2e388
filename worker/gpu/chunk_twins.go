package gpu

import (
	"math"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

func (c *checker) embedRows(e kernels.EmbedRows) []output {
	w := c.matrix(e.W)
	var h []float32
	for _, id := range c.uints(e.IDs, e.Count) {
		h = append(h, w.Row(int(id))...)
	}
	return []output{floats("residual", e.H, h)}
}

// normed is what a norm of rows h writes.
func (c *checker) normed(n kernels.NormRows, h []float32) []output {
	x := ref.NormRows(h, c.floats(n.Gain, n.Cols), n.Eps)
	out := []output{operands("normed", n.X, x)}
	if n.Exact != nil {
		out = append(out, floats("exact", *n.Exact, x))
	}
	return out
}

func (c *checker) normRows(n kernels.NormRows) []output {
	return c.normed(n, c.floats(n.H, n.Count*n.Cols))
}

func (c *checker) linearRows(l kernels.LinearRows) []output {
	w, n := c.matrix(l.W), l.Count*l.W.Cols
	var y []float32
	if l.XType == kernels.F32 {
		y = ref.LinearRows(w, c.floats(l.X, n))
	} else {
		y = ref.LinearRows(c.rounded(l.W), c.operands(l.X, n))
	}
	rows := l.W.Rows
	switch {
	case l.SwiGLU:
		return []output{operands("outputs", l.Out, ref.SwiGLURows(y, rows))}
	case l.Residual:
		h := c.floats(l.Out, len(y))
		for i := range h {
			h[i] += y[i]
		}
		return []output{floats("residual", l.Out, h)}
	}
	var out []output
	for i := range l.Count {
		out = append(out, floats("outputs", l.Out.At(4*int64(i)*int64(max(l.Stride, rows))), y[i*rows:(i+1)*rows]))
	}
	return out
}

func (c *checker) routeRows(r kernels.RouteRows) []output {
	var ids []uint32
	var weights []float32
	for i := range r.Count {
		row := c.floats(r.Logits.At(int64(4*i*(r.Experts+1))), r.Experts+1)
		id, w := ref.Route(row[:r.Experts], row[r.Experts], r.TopK, r.Normalise)
		ids, weights = append(ids, id...), append(weights, w...)
	}
	return []output{words("experts", r.IDs, ids), floats("weights", r.Weights, weights)}
}

func (c *checker) groupRows(g kernels.GroupRows) []output {
	k, height := g.Grouped.TopK, g.Grouped.Height
	tokens, places, tiles, loads := ref.Group(c.uints(g.IDs, g.Grouped.Count*k), k, g.Experts, height)
	list := make([]uint32, 0, 4*kernels.TileCount(g.Grouped.Count, k, g.Experts, height))
	for _, t := range tiles {
		list = append(list, t.Expert, t.First, t.Rows, 0)
	}
	list = list[:cap(list)] // those without rows
	for i, before := range c.uints(g.Loads, g.Experts) {
		loads[i] += before
	}
	return []output{
		words("tokens", g.Grouped.Tokens, tokens), words("places", g.Places, places), words("tiles", g.Grouped.Tiles, list), words("loads", g.Loads, loads),
	}
}

// grouped multiplies the rows of x, one for each of a group's, by their experts' matrices.
func (c *checker) grouped(g kernels.Grouped, e kernels.Experts, m kernels.Matrix, x []float32) []float32 {
	loads := make([]uint32, e.Count)
	tiles := c.uints(g.Tiles, 4*kernels.TileCount(g.Count, g.TopK, e.Count, g.Height))
	for i := 0; i < len(tiles); i += 4 {
		if rows := tiles[i+2]; rows > 0 && int(tiles[i]) < e.Count {
			loads[tiles[i]] += rows
		}
	}
	var matrices []ref.Matrix
	for i := range int64(e.Count) {
		one := m
		one.Codes, one.Pairs = m.Codes+i*e.Stride, m.Pairs+i*e.Stride
		matrices = append(matrices, c.rounded(one))
	}
	return ref.ExpertRows(matrices, loads, x)
}

func (c *checker) expertsUpRows(u kernels.ExpertsUpRows) []output {
	m, g := u.Experts.GateUp, u.Grouped
	x := ref.Gather(c.operands(u.X, g.Count*m.Cols), m.Cols, c.uints(g.Tokens, g.Count*g.TopK))
	return []output{operands("outputs", u.Out, ref.SwiGLURows(c.grouped(g, u.Experts, m, x), m.Rows))}
}

func (c *checker) expertsDownRows(d kernels.ExpertsDownRows) []output {
	m, g := d.Experts.Down, d.Grouped
	return []output{floats("outputs", d.Out, c.grouped(g, d.Experts, m, c.operands(d.X, g.Count*g.TopK*m.Cols)))}
}

func (c *checker) combineRows(r kernels.CombineRows) []output {
	n, k := r.Norm, r.TopK
	size := n.Count * n.Cols
	h := ref.Combine(c.floats(n.H, size), c.floats(r.Experts, size*k), c.uints(r.Places, n.Count*k), c.floats(r.Weights, n.Count*(k+1)),
		c.floats(r.Shared, size), k, n.Cols)
	return append([]output{floats("residual", n.H, h)}, c.normed(n, h)...)
}

// deltaChunk is all that the dispatches of a DeltaNet leave behind the last of them.
func (c *checker) deltaChunk(d kernels.PrefillDelta) []output {
	step := c.uints(d.Step, 4)
	channels, values := 2*d.KeyHeads*d.KeyDim+d.ValueHeads*d.ValueDim, d.ValueHeads*d.ValueDim
	window, size := (d.Taps-1)*channels, values*d.KeyDim
	at := func(slot uint32, n int) int64 { return (int64(slot)*int64(d.Layers) + int64(d.Layer)) * int64(n) }
	t := ref.Delta{
		KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Taps: d.Taps, Eps: d.Eps,
		ConvW: c.floats(d.ConvW, d.Taps*channels), Decay: c.floats(d.Decay, d.ValueHeads), DtBias: c.floats(d.DtBias, d.ValueHeads),
		Gain: c.floats(d.Gain, d.ValueDim),
		Conv: c.bfloats(d.Conv.At(2*at(step[2], window)), window), Recurrent: c.floats(d.Recurrent.At(4*at(step[2], size)), size),
	}
	var parts [4][][]float32
	for i := range d.Rows {
		row := c.floats(d.Proj.At(4*int64(i)*int64(d.Width)), d.Width)
		for j := range channels { // as the window will have them
			row[d.QKV+j] = ref.Round(row[d.QKV+j])
		}
		for p, part := range [4]struct{ at, n int }{{d.QKV, channels}, {d.Z, values}, {d.B, d.ValueHeads}, {d.A, d.ValueHeads}} {
			parts[p] = append(parts[p], row[part.at:part.at+part.n])
		}
	}
	var out []float32
	for _, row := range t.AdvanceChunk(parts[0], parts[1], parts[2], parts[3]) {
		out = append(out, row...)
	}
	return []output{
		operands("outputs", d.Out, out), bfloats("window", d.Conv.At(2*at(step[3], window)), t.Conv),
		floats("state", d.Recurrent.At(4*at(step[3], size)), t.Recurrent),
	}
}

func (c *checker) prepareRows(a kernels.PrefillAttentionPrep) []output {
	step := c.uints(a.Step, 5)
	n, per := a.HeadDim, a.Heads/a.KVHeads
	head := func(x []float32, gain kernels.Ref, position int, scale float64) []float32 {
		return ref.Head(append([]float32(nil), x...), c.floats(gain, n), a.Eps, a.Rotary, c.m.shape.RopeTheta, position, scale)
	}
	var out []output
	for t := range a.Rows {
		position := int(step[1]) + t
		row := c.floats(a.Proj.At(4*int64(t)*int64(a.Width)), a.Width)
		for h := range a.Heads {
			q := head(row[a.Q+2*h*n:][:n], a.QGain, position, 1/math.Sqrt(float64(n)))
			for tile := range n / 8 {
				out = append(out, bfloats("queries", a.Out.At(queryPlace(a.AttentionShape, a.Rows, t*per+h%per, h/per, tile)), q[8*tile:8*tile+8]))
			}
		}
		for h := range a.KVHeads {
			out = append(out,
				bfloats("keys", c.cache(a.AttentionShape, a.KV, a.Table, step[4], 0, h, position), head(row[a.K+h*n:][:n], a.KGain, position, 1)),
				bfloats("values", c.cache(a.AttentionShape, a.KV, a.Table, step[4], 1, h, position), row[a.V+h*n:][:n]))
		}
	}
	return out
}

// queryPlace is the byte of 8 elements of a query, one of those of a KV head: see kernels.PrefillQueriesBytes.
func queryPlace(s kernels.AttentionShape, rows, query, kvHead, tile int) int64 {
	group := s.PrefillQueriesBytes(rows) / int64(s.KVHeads)
	return int64(kvHead)*group + int64(2*((query/8*(s.HeadDim/8)+tile)*64+query%8*8))
}

func (c *checker) attendRows(a kernels.PrefillAttention) []output {
	step, n, per := c.uints(a.Step, 5), a.HeadDim, a.Heads/a.KVHeads
	position := int(step[1])
	out := make([]float32, a.Rows*a.Heads*n)
	for h := range a.Heads {
		cached := func(values int) func(t int) []float32 {
			return func(t int) []float32 {
				return c.bfloats(c.cache(a.AttentionShape, a.KV, a.Table, step[4], values, h/per, t), n)
			}
		}
		query := func(t int) []float32 {
			var q []float32
			for tile := range n / 8 {
				q = append(q, c.bfloats(a.Queries.At(queryPlace(a.AttentionShape, a.Rows, t*per+h%per, h/per, tile)), 8)...)
			}
			return q
		}
		gate := func(t int) []float32 {
			return c.floats(a.Proj.At(4*(int64(t)*int64(a.Width)+int64(a.Q+(2*h+1)*n))), n)
		}
		for t, row := range ref.AttendChunk(a.Rows, position, query, gate, cached(0), cached(1)) {
			copy(out[(t*a.Heads+h)*n:], row)
		}
	}
	o := operands("outputs", a.Out, out)
	o.scale = 2 // weights are rounded to bf16, which moves an output by 2^-9 of what is weighted: see kernels.PrefillAttention
	return []output{o}
}
