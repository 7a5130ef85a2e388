package gpu

import "lilypad/metal/kernels"

// mlp is a dense MLP, added to the residual; gain is that of the norm after it.
func (b *builder) mlp(w *mlp, gain kernels.Ref) {
	s, r := &b.m.scratch, b.residual(gain)
	b.barrier()
	b.linear(kernels.Linear{W: w.up, X: s.gained, Norm: b.norm(), Out: s.sharedX, SwiGLU: true})
	b.barrier()
	b.linear(kernels.Linear{W: w.down, X: s.sharedX, Residual: &r})
}

// moe is the sparse block: router and shared expert's first half in one level, routing, the chosen experts, and the sum.
func (b *builder) moe(w *moe, gain kernels.Ref) {
	m, s := b.m, &b.m.scratch
	b.barrier()
	b.project(w.router, s.router)
	b.linear(kernels.Linear{W: w.shared.up, X: s.gained, Norm: b.norm(), Out: s.sharedX, SwiGLU: true})
	b.barrier()
	k := m.shape.ExpertsPerToken
	route := kernels.Route{
		Logits: s.router, Shared: kernels.Ref{Buffer: s.router.Buffer, Offset: s.router.Offset + int64(4*w.router.offsets[1])},
		Experts: m.shape.Experts, TopK: k, Normalise: m.shape.NormTopK, IDs: s.ids, Weights: s.expertWeights,
	}
	if b.err == nil {
		d, err := m.kernels.Route(route)
		b.add(route, d, err)
	}
	b.barrier()
	up := kernels.ExpertsUp{Experts: w.experts, TopK: k, IDs: s.ids, X: s.gained, Norm: *b.norm(), Out: s.expertsX}
	if b.err == nil {
		d, err := m.kernels.ExpertsUp(up)
		b.add(up, d, err)
	}
	b.barrier()
	down := kernels.ExpertsDown{
		Experts: w.experts, TopK: k, IDs: s.ids, Weights: s.expertWeights, X: s.expertsX,
		Shared: w.shared.down, SharedX: s.sharedX, Residual: b.residual(gain),
	}
	if b.err == nil {
		d, err := m.kernels.ExpertsDown(planted(b, down))
		b.add(down, d, err)
	}
}
