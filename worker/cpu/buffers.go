package cpu

// buffers are the activations between tasks, fp32 with one row per token.
type buffers struct {
	rows     int // room
	h        []float32
	x        batch     // normalised h, input of projections
	sin, cos []float32 // [rows, Rotary/2]

	qg   []float32 // [rows, Heads, 2 (query, gate), HeadDim]
	k, v []float32 // [rows, KVHeads, HeadDim]
	q    []float32 // [rows, Heads, headStride], turned and scaled, zeros beyond HeadDim

	u, z, beta, alpha []float32 // u: [Conv-1+rows, ConvChannels], the window's columns first

	mixed batch // output of the mixer's heads, input of its last projection

	router  []float32 // [rows, Experts]
	gate    []float32 // [rows]: of the shared expert
	top     []int32   // [rows, ExpertsPerToken], ascending
	topW    []float32 // [rows, ExpertsPerToken]
	routed  batch     // [rows*ExpertsPerToken, ExpertFFN], by expert
	always  batch     // [rows, SharedFFN or FFN]
	y       []float32 // [rows, Hidden]
	slots   []int32   // [rows*ExpertsPerToken]: token of each row of routed
	weights []float32 // [rows*ExpertsPerToken]: router weight of each row of routed
	ones    []float32 // [rows]
}

// grow makes room for at least rows tokens.
func (b *buffers) grow(m *Model, rows int) {
	if rows <= b.rows {
		return
	}
	s, n := m.shape, 1
	for n < rows {
		n *= 2
	}
	floats := func(per int) []float32 { return make([]float32, n*per) }
	batchOf := func(rows, cols int) batch {
		b := newBatch(rows, cols)
		if !m.kernels.wantsSums {
			b.sums = nil
		}
		return b
	}
	*b = buffers{rows: n, h: floats(s.Hidden), x: batchOf(n, s.Hidden), y: floats(s.Hidden)}
	mixed := 0
	if m.attnLayers > 0 {
		mixed = s.Heads * s.HeadDim
		b.sin, b.cos = floats(s.Rotary/2), floats(s.Rotary/2)
		b.qg, b.q = floats(s.Heads*2*s.HeadDim), floats(s.Heads*m.headStride)
		b.k, b.v = floats(s.KVHeads*s.HeadDim), floats(s.KVHeads*s.HeadDim)
	}
	if m.deltaLayers > 0 {
		mixed = max(mixed, s.ValueHeads*s.ValueDim)
		b.u = make([]float32, (s.Conv-1+n)*s.ConvChannels())
		b.z = floats(s.ValueHeads * s.ValueDim)
		b.beta, b.alpha = floats(s.ValueHeads), floats(s.ValueHeads)
	}
	b.mixed = batchOf(n, mixed)
	always := 0
	for _, l := range s.Layers {
		if !l.MoE {
			always = max(always, s.FFN)
			continue
		}
		always = max(always, s.SharedFFN)
		if b.router == nil {
			slots := n * s.ExpertsPerToken
			b.router, b.gate = floats(s.Experts), floats(1)
			b.top, b.topW = make([]int32, slots), make([]float32, slots)
			b.slots, b.weights = make([]int32, slots), make([]float32, slots)
			b.routed = batchOf(slots, s.ExpertFFN)
		}
	}
	b.always = batchOf(n, always)
	b.ones = floats(1)
	for i := range b.ones {
		b.ones[i] = 1
	}
}

// scratch is one thread's memory, with the kernels that work in it.
type scratch struct {
	*kernels
	tile        []float32 // [4, padded columns of the widest matrix]
	scale, bias []float32 // [4, groups]
	sums        []float32 // [4, groups]: sums of activations
	dots        []quad    // [groups]
	out, out2   []float32 // results of mulRows
	vector      vectorScratch
	scores      []float32 // [rows of a unit, positions]: attention
	heads       []float32 // [rows of a unit, headStride]: attention
	totals      []float32 // [rows of a unit]: attention
	q, k, v     []float32 // one head each: DeltaNet
}

// newScratch sizes a thread's memory by the widest matrix.
func (m *Model) newScratch() scratch {
	s := m.shape
	widest := max(s.Hidden, s.Heads*s.HeadDim, s.ValueHeads*s.ValueDim, s.ExpertFFN, s.SharedFFN, s.FFN)
	groups := widest/blockCols + 1
	return scratch{
		kernels: m.kernels,
		tile:    make([]float32, 4*padded(widest)),
		scale:   make([]float32, 4*groups), bias: make([]float32, 4*groups), sums: make([]float32, 4*groups), dots: make([]quad, groups),
		out: make([]float32, outRoom), out2: make([]float32, outRoom), vector: newVectorScratch(widest),
		q: make([]float32, s.KeyDim), k: make([]float32, s.KeyDim), v: make([]float32, s.ValueDim),
	}
}
