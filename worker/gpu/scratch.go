package gpu

import (
	"lilypad/metal"
	"lilypad/metal/kernels"
)

// scratch is the memory between the dispatches of a token, and what host and device tell each other. Each is a buffer of
// its own, so that a simulator with address checks sees a kernel that goes beyond one. Activations are fp32: rounding them to
// bf16 tips some predictions of the demo, and saves nothing beside the weights. Vectors lie in lane order: kernels.LaneOrder.
type scratch struct {
	buffers []*metal.Buffer
	parts   int // numbers in squares

	h, gained, squares kernels.Ref    // residual: [Hidden], vector [Hidden], [parts]
	proj               kernels.Ref    // projections of a mixer
	q                  kernels.Ref    // [Heads*HeadDim]
	partials           kernels.Ref    // attention's splits
	mixed              kernels.Ref    // vector: output of a mixer's heads
	router             kernels.Ref    // logits of the experts and the shared expert's gate
	ids                kernels.Ref    // uint32 [ExpertsPerToken]
	expertWeights      kernels.Ref    // [ExpertsPerToken+1]
	expertsX           kernels.Ref    // vectors [ExpertsPerToken][ExpertFFN]
	sharedX            kernels.Ref    // vector [SharedFFN] or [FFN]
	logits             [2]kernels.Ref // [Vocab]; sampled tokens use them in turn
	best               kernels.Ref    // argmax partials of the head
	allowed            kernels.Ref    // bits [Vocab]: ids that may be sampled

	loads                 kernels.Ref // u32 [layers][Experts]: rows that each expert got in chunks
	step, results, params kernels.Ref // see run.go
}

// room is a buffer to make.
type room struct {
	ref   *kernels.Ref
	bytes int64
}

// newScratch makes the memory for a token.
func (m *Model) newScratch() error {
	s, c := m.shape, &m.scratch
	proj := 0
	for i := range m.weights.layers {
		l := &m.weights.layers[i]
		if l.attn != nil {
			proj = max(proj, l.attn.in.width)
		} else {
			proj = max(proj, l.delta.in.width)
		}
	}
	router := 2
	for i := range m.weights.layers {
		if l := &m.weights.layers[i]; l.moe != nil {
			router = max(router, l.moe.router.width)
		}
	}
	splits := 1
	for _, l := range m.lengths {
		splits = max(splits, l.splits)
	}
	c.parts = (s.Hidden + 7) / 8
	k := max(s.ExpertsPerToken, 1)
	words := func(n int) int64 { return int64(4 * n) }
	for _, r := range []room{
		{&c.h, words(s.Hidden)}, {&c.gained, kernels.VectorBytes(s.Hidden)}, {&c.squares, words(c.parts)},
		{&c.proj, words(proj)}, {&c.q, words(s.Heads * s.HeadDim)}, {&c.partials, m.attentionShape().PartialBytes(splits)},
		{&c.mixed, kernels.VectorBytes(max(s.Heads*s.HeadDim, s.ValueHeads*s.ValueDim))},
		{&c.router, words(router)}, {&c.ids, words(k)}, {&c.expertWeights, words(k + 1)},
		{&c.expertsX, int64(k) * kernels.VectorBytes(max(s.ExpertFFN, 1))}, {&c.sharedX, kernels.VectorBytes(max(s.SharedFFN, s.FFN))},
		{&c.logits[0], words(s.Vocab)}, {&c.logits[1], words(s.Vocab)}, {&c.best, words(2 * m.kernels.BestParts(s.Vocab))}, {&c.allowed, words((s.Vocab + 31) / 32)},
		{&c.loads, words(max(len(s.Layers)*s.Experts, 1))},
		{&c.step, kernels.StepBytes}, {&c.results, kernels.Results * kernels.ResultBytes}, {&c.params, kernels.SampleParamsBytes},
	} {
		b, err := m.device.NewBuffer(roundUp(r.bytes, 16))
		if err != nil {
			return err
		}
		c.buffers = append(c.buffers, b)
		*r.ref = kernels.Ref{Buffer: b}
	}
	return nil
}

func (c *scratch) close() {
	for _, b := range c.buffers {
		b.Close()
	}
	c.buffers = nil
}
