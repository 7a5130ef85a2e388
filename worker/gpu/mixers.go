package gpu

import "lilypad/metal/kernels"

// embed makes the residual of the step's token.
func (b *builder) embed() {
	m := b.m
	e := kernels.Embed{W: m.weights.embed, Step: m.scratch.step, Residual: b.residual(m.weights.layers[0].inputGain)}
	d, err := m.kernels.Embed(e)
	b.add(e, d, err)
}

// delta is a Gated DeltaNet mixer: projections, the step, and the output projection.
func (b *builder) delta(l *layer) {
	m, s, w := b.m, b.m.shape, l.delta
	b.barrier()
	b.project(w.in, m.scratch.proj)
	b.barrier()
	at := w.in.offsets
	step := kernels.Delta{
		Proj: m.scratch.proj, QKV: at[0], Z: at[1], B: at[2], A: at[3],
		ConvW: w.conv, Decay: w.decay, DtBias: w.dtBias, Gain: w.gain,
		Conv: m.states.conv.at(0), Recurrent: m.states.recurrent.at(0), Slots: m.states.recurrent.capacity,
		Layer: l.index, Layers: m.deltaLayers, KeyHeads: s.KeyHeads, ValueHeads: s.ValueHeads, KeyDim: s.KeyDim, ValueDim: s.ValueDim,
		Taps: s.Conv, Eps: s.NormEps, Step: m.scratch.step, Out: m.scratch.mixed,
	}
	if b.err == nil {
		d, err := m.kernels.Delta(planted(b, step))
		b.add(step, d, err)
	}
	b.out(w.out, l.postGain)
}

// out adds a mixer's output projection to the residual.
func (b *builder) out(w kernels.Matrix, gain kernels.Ref) {
	r := b.residual(gain)
	b.barrier()
	b.linear(kernels.Linear{W: w, X: b.m.scratch.mixed, Residual: &r})
}

// attention is a gated attention mixer.
func (b *builder) attention(l *layer, route int) {
	m, s, w := b.m, b.m.shape, l.attn
	shape := m.attentionShape()
	shape.Layer, shape.Blocks = l.index, m.states.kv.capacity
	at := w.in.offsets
	b.barrier()
	b.project(w.in, m.scratch.proj)
	prep := kernels.AttentionPrep{
		AttentionShape: shape, Proj: m.scratch.proj, Q: at[0], K: at[1], V: at[2],
		QGain: w.qGain, KGain: w.kGain, Eps: s.NormEps, Coarse: m.rope.coarse, Fine: m.rope.fine,
		KV: m.states.kv.at(0), Table: m.states.table.at(0), Step: m.scratch.step, Out: m.scratch.q,
	}
	b.barrier()
	if b.err == nil {
		d, err := m.kernels.AttentionPrep(planted(b, prep))
		b.add(prep, d, err)
	}
	a := kernels.Attention{
		AttentionShape: shape, Queries: m.scratch.q, Proj: m.scratch.proj, Q: at[0], KV: prep.KV, Table: prep.Table, Step: prep.Step,
		Out: m.scratch.mixed, Splits: m.lengths[route].splits, MaxLength: min(m.lengths[route].most, shape.Blocks*blockTokens), Partials: m.scratch.partials,
	}
	b.barrier()
	if b.err == nil {
		d, err := m.kernels.Attention(a)
		b.add(a, d, err)
	}
	if a.Splits > 1 && b.err == nil {
		b.barrier()
		d, err := m.kernels.AttentionMerge(a)
		b.add(merge{a}, d, err)
	}
	b.out(w.out, l.postGain)
}

// merge is the spec of the dispatch that merges the splits of an attention.
type merge struct{ kernels.Attention }
