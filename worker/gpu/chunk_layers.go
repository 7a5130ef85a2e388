package gpu

import (
	"lilypad/metal"
	"lilypad/metal/kernels"
)

// deltaRows is the mixer of l over rows tokens.
func (m *Model) deltaRows(l *layer, rows int) kernels.PrefillDelta {
	s, w, c := m.shape, l.delta, &m.chunk
	at := w.in.offsets
	return kernels.PrefillDelta{
		Rows: rows, Proj: c.proj, ProjType: kernels.F32, Width: w.in.width, QKV: at[0], Z: at[1], B: at[2], A: at[3],
		ConvW: w.conv, Decay: w.decay, DtBias: w.dtBias, Gain: w.gain,
		Conv: m.states.conv.at(0), WindowType: kernels.BF16, Recurrent: m.states.recurrent.at(0), Slots: m.states.recurrent.capacity,
		Layer: l.index, Layers: m.deltaLayers, KeyHeads: s.KeyHeads, ValueHeads: s.ValueHeads, KeyDim: s.KeyDim, ValueDim: s.ValueDim,
		Taps: s.Conv, Eps: s.NormEps, Step: m.scratch.step, Scratch: c.delta, Out: c.mixed,
	}
}

// The stages of a DeltaNet, each the spec of a dispatch.
type (
	deltaPrep struct{ kernels.PrefillDelta }
	deltaScan struct{ kernels.PrefillDelta }
	deltaGate struct{ kernels.PrefillDelta }
)

// delta is a Gated DeltaNet mixer.
func (b *rowsBuilder) delta(l *layer) {
	k := b.m.kernels
	b.project(l.delta.in, b.c.x, kernels.F16, b.c.proj)
	d := b.m.deltaRows(l, b.rows)
	b.barrier()
	dispatch(b, deltaPrep{d}, func(d deltaPrep) (*metal.Dispatch, error) { return k.PrefillDeltaPrep(d.PrefillDelta) })
	b.barrier()
	dispatch(b, deltaScan{d}, func(d deltaScan) (*metal.Dispatch, error) { return k.PrefillDeltaScan(d.PrefillDelta) })
	b.barrier()
	dispatch(b, deltaGate{d}, func(d deltaGate) (*metal.Dispatch, error) { return k.PrefillDeltaGate(d.PrefillDelta) })
	b.out(l.delta.out, b.c.mixed)
}

// out adds a product to the residual.
func (b *rowsBuilder) out(w kernels.Matrix, x kernels.Ref) {
	b.barrier()
	b.linear(kernels.LinearRows{W: w, X: x, XType: kernels.F16, Count: b.rows, Out: b.c.h, OutType: kernels.F32, Residual: true})
}

// attention is a gated attention mixer.
func (b *rowsBuilder) attention(l *layer) {
	m, s, w, c := b.m, b.m.shape, l.attn, b.c
	shape := m.attentionShape()
	shape.Layer, shape.Blocks = l.index, m.states.kv.capacity
	at := w.in.offsets
	b.project(w.in, c.x, kernels.F16, c.proj)
	prep := kernels.PrefillAttentionPrep{
		AttentionShape: shape, Rows: b.rows, Proj: c.proj, ProjType: kernels.F32, Width: w.in.width, Q: at[0], K: at[1], V: at[2],
		QGain: w.qGain, KGain: w.kGain, Eps: s.NormEps, Coarse: m.rope.coarse, Fine: m.rope.fine,
		KV: m.states.kv.at(0), Table: m.states.table.at(0), Step: m.scratch.step, MaxLength: b.length, Out: c.queries,
	}
	b.barrier()
	dispatch(b, prep, m.kernels.PrefillAttentionPrep)
	b.barrier()
	dispatch(b, kernels.PrefillAttention{
		AttentionShape: shape, Rows: b.rows, Queries: c.queries, Proj: c.proj, ProjType: kernels.F32, Width: w.in.width, Q: at[0],
		KV: prep.KV, Table: prep.Table, Step: prep.Step, MaxLength: b.length, Out: c.mixed,
	}, m.kernels.PrefillAttention)
	b.out(w.out, c.mixed)
}

// mlp is a dense MLP, added to the residual; gain is that of the norm after it.
func (b *rowsBuilder) mlp(w *mlp, gain kernels.Ref) {
	c := b.c
	b.linear(kernels.LinearRows{W: w.up, X: c.x, XType: kernels.F16, Count: b.rows, Out: c.sharedInner, OutType: kernels.F16, SwiGLU: true})
	b.out(w.down, c.sharedInner)
	b.barrier()
	b.norm(b.normOf(gain))
}

// moe is the sparse block. Which rows an expert gets never leaves the GPU: dispatches are launched for as many tiles as there
// can be, and those without rows leave at once.
func (b *rowsBuilder) moe(w *moe, gain kernels.Ref) {
	m, s, c := b.m, b.m.shape, b.c
	k := s.ExpertsPerToken
	b.project(w.router, c.exact, kernels.F32, c.router)
	b.linear(kernels.LinearRows{W: w.shared.up, X: c.x, XType: kernels.F16, Count: b.rows, Out: c.sharedInner, OutType: kernels.F16, SwiGLU: true})
	b.barrier()
	dispatch(b, kernels.RouteRows{
		Logits: c.router, Count: b.rows, Experts: s.Experts, TopK: k, Normalise: s.NormTopK, IDs: c.experts, Weights: c.weights,
	}, m.kernels.RouteRows)
	b.linear(kernels.LinearRows{W: w.shared.down, X: c.sharedInner, XType: kernels.F16, Count: b.rows, Out: c.sharedOuter, OutType: kernels.F32})
	group := kernels.Grouped{Count: b.rows, TopK: k, Height: kernels.TileHeight(b.rows, k, s.Experts), Tokens: c.tokens, Tiles: c.tiles}
	loads := m.scratch.loads.At(4 * int64(b.layer) * int64(s.Experts))
	b.barrier()
	dispatch(b, kernels.GroupRows{IDs: c.experts, Experts: s.Experts, Grouped: group, Places: c.places, Loads: loads}, m.kernels.GroupRows)
	b.barrier()
	dispatch(b, kernels.ExpertsUpRows{Experts: w.experts, Grouped: group, X: c.x, Out: c.inner}, m.kernels.ExpertsUpRows)
	b.barrier()
	dispatch(b, kernels.ExpertsDownRows{Experts: w.experts, Grouped: group, X: c.inner, Out: c.outer, OutType: kernels.F32}, m.kernels.ExpertsDownRows)
	b.barrier()
	dispatch(b, kernels.CombineRows{
		TopK: k, Places: c.places, Weights: c.weights, Experts: c.outer, Shared: c.sharedOuter, Type: kernels.F32, Norm: b.normOf(gain),
	}, m.kernels.CombineRows)
}
