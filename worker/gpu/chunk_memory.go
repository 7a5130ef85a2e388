package gpu

import (
	"lilypad/metal"
	"lilypad/metal/kernels"
)

const (
	// shortChunk is the rows of a chunk where memory is short.
	shortChunk = 512
	// fewestRows is the rows of the smallest room for chunks: less is not worth making it anew for a longer one.
	fewestRows = 256
	// headRows is how many rows of logits are computed at once.
	headRows = 16
)

// chunkMemory is the memory between the dispatches of a chunk of at most rows tokens. What matrices multiply is f16, as
// simdgroup matrices want it; the residual, the router's part and all sums are fp32.
type chunkMemory struct {
	rows    int // 0: there is none yet
	buffers []*metal.Buffer

	ids         kernels.Ref // u32 [rows]
	h           kernels.Ref // residual: f32 [rows][Hidden]
	x           kernels.Ref // normed: f16 [rows][Hidden]
	exact       kernels.Ref // normed, for the router and the head: f32 [rows][Hidden]
	proj        kernels.Ref // projections of a mixer: f32 [rows][width]
	queries     kernels.Ref // of PrefillAttentionPrep
	delta       kernels.Ref // between the dispatches of a DeltaNet
	mixed       kernels.Ref // output of a mixer's heads: f16 [rows][width]
	router      kernels.Ref // f32 [rows][Experts+1]
	experts     kernels.Ref // u32 [rows][TopK]
	weights     kernels.Ref // f32 [rows][TopK+1]
	tokens      kernels.Ref // of Grouped
	tiles       kernels.Ref // of Grouped
	places      kernels.Ref // u32 [rows][TopK]
	inner       kernels.Ref // f16 [rows*TopK][ExpertFFN]
	outer       kernels.Ref // f32 [rows*TopK][Hidden]
	sharedInner kernels.Ref // f16 [rows][SharedFFN], or of a dense MLP [rows][FFN]
	sharedOuter kernels.Ref // f32 [rows][Hidden]
	logits      kernels.Ref // f32 [headRows][Vocab]
}

// chunkRoom makes memory for a chunk of n tokens, or for as many as there is room for, and says how many those are. No pass
// is in flight.
func (m *Model) chunkRoom(n int) (int, error) {
	n = min(n, m.opt.Chunk)
	if m.opt.Pressed != nil && m.opt.Pressed() {
		n = min(n, shortChunk)
	}
	if n <= m.chunk.rows {
		return n, nil
	}
	for rows := min(max(fewestRows, powerOfTwo(n)), m.opt.Chunk); ; rows = shortChunk {
		m.dropChunk()
		err := m.newChunk(rows)
		if err == nil {
			return min(n, rows), nil
		}
		m.dropChunk()
		if rows <= shortChunk {
			return 0, noMemory(m.chunkBytes(rows), err.Error())
		}
	}
}

// dropChunk frees the memory of chunks and what binds it.
func (m *Model) dropChunk() {
	for _, c := range m.chunks {
		closeOps(c.ops)
	}
	m.chunks = nil
	for _, b := range m.chunk.buffers {
		b.Close()
	}
	m.chunk = chunkMemory{}
}

// chunkRooms are the buffers of c for rows tokens.
func (m *Model) chunkRooms(c *chunkMemory, rows int) []room {
	s := m.shape
	n, k := int64(rows), int64(max(s.ExpertsPerToken, 1))
	proj, mixed, scratch := m.widest(rows)
	tiles := 0
	for r := 1; r <= rows && s.Experts > 0; r++ { // fewer tokens may come in lower tiles, and so in more of them
		tiles = max(tiles, kernels.TileCount(r, s.ExpertsPerToken, s.Experts, kernels.TileHeight(r, s.ExpertsPerToken, s.Experts)))
	}
	hidden := int64(s.Hidden)
	return []room{
		{&c.ids, 4 * n}, {&c.h, 4 * n * hidden}, {&c.x, 2 * n * hidden}, {&c.exact, 4 * n * hidden}, {&c.proj, 4 * n * proj},
		{&c.queries, m.attentionShape().PrefillQueriesBytes(rows)}, {&c.delta, scratch}, {&c.mixed, 2 * n * mixed},
		{&c.router, 4 * n * int64(s.Experts+1)}, {&c.experts, 4 * n * k}, {&c.weights, 4 * n * (k + 1)}, {&c.tokens, 4 * n * k},
		{&c.tiles, 16 * int64(tiles)}, {&c.places, 4 * n * k}, {&c.inner, 2 * n * k * int64(s.ExpertFFN)}, {&c.outer, 4 * n * k * hidden},
		{&c.sharedInner, 2 * n * int64(max(s.SharedFFN, s.FFN))}, {&c.sharedOuter, 4 * n * hidden}, {&c.logits, 4 * headRows * int64(s.Vocab)},
	}
}

// widest is the most that a mixer of any layer needs: elements of a row of projections and of outputs, and bytes of scratch.
func (m *Model) widest(rows int) (proj, mixed, scratch int64) {
	s := m.shape
	for i := range m.weights.layers {
		l := &m.weights.layers[i]
		if l.attn != nil {
			proj, mixed = max(proj, int64(l.attn.in.width)), max(mixed, int64(s.Heads*s.HeadDim))
			continue
		}
		proj, mixed = max(proj, int64(l.delta.in.width)), max(mixed, int64(s.ValueHeads*s.ValueDim))
		d := m.deltaRows(l, rows)
		scratch = max(scratch, d.ScratchBytes())
	}
	return proj, mixed, scratch
}

func (m *Model) newChunk(rows int) error {
	c := &m.chunk
	for _, r := range m.chunkRooms(c, rows) {
		b, err := m.device.NewBuffer(roundUp(max(r.bytes, 16), 16))
		if err != nil {
			return err
		}
		c.buffers = append(c.buffers, b)
		*r.ref = kernels.Ref{Buffer: b}
	}
	c.rows = rows
	return nil
}

// chunkBytes is the size of the memory for a chunk of rows tokens.
func (m *Model) chunkBytes(rows int) int64 {
	total := int64(0)
	for _, r := range m.chunkRooms(&chunkMemory{}, rows) {
		total += r.bytes
	}
	return total
}

func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
