package gpu

import (
	"lilypad/metal"
	"lilypad/metal/kernels"
)

// scratch is the memory between the dispatches of a token, and what host and device tell each other. Each is a buffer of
// its own, so that a simulator with address checks sees a kernel that goes beyond one.
type scratch struct {
	buffers []*metal.Buffer
	parts   int // numbers in squares

	h, gained, squares kernels.Ref    // residual: fp32 [Hidden], bf16 [Hidden], fp32 [parts]
	proj               kernels.Ref    // bf16: projections of a mixer
	q                  kernels.Ref    // bf16 [Heads*HeadDim]
	partials           kernels.Ref    // fp32: attention's splits
	mixed              kernels.Ref    // bf16: output of a mixer's heads
	router             kernels.Ref    // fp32: logits of the experts and the shared expert's gate
	ids                kernels.Ref    // uint32 [ExpertsPerToken]
	expertWeights      kernels.Ref    // fp32 [ExpertsPerToken+1]
	expertsX           kernels.Ref    // bf16 [ExpertsPerToken][ExpertFFN]
	sharedX            kernels.Ref    // bf16 [SharedFFN] or [FFN]
	logits             [2]kernels.Ref // fp32 [Vocab]; sampled tokens use them in turn
	best               kernels.Ref    // argmax partials of the head
	allowed            kernels.Ref    // bits [Vocab]: ids that may be sampled

	step, feed, results, params kernels.Ref // see run.go
}

// room is a buffer to make.
type room struct {
	ref   *kernels.Ref
	bytes int
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
	for _, r := range []room{
		{&c.h, 4 * s.Hidden}, {&c.gained, 2 * s.Hidden}, {&c.squares, 4 * c.parts},
		{&c.proj, 2 * proj}, {&c.q, 2 * s.Heads * s.HeadDim}, {&c.partials, int(m.attentionShape().PartialBytes(splits))},
		{&c.mixed, 2 * max(s.Heads*s.HeadDim, s.ValueHeads*s.ValueDim)},
		{&c.router, 4 * router}, {&c.ids, 4 * k}, {&c.expertWeights, 4 * (k + 1)},
		{&c.expertsX, 2 * k * max(s.ExpertFFN, 1)}, {&c.sharedX, 2 * max(s.SharedFFN, s.FFN)},
		{&c.logits[0], 4 * s.Vocab}, {&c.logits[1], 4 * s.Vocab}, {&c.best, 8 * m.kernels.BestParts(s.Vocab)}, {&c.allowed, 4 * ((s.Vocab + 31) / 32)},
		{&c.step, kernels.StepBytes}, {&c.feed, 4 * feedTokens}, {&c.results, kernels.Results * kernels.ResultBytes}, {&c.params, kernels.SampleParamsBytes},
	} {
		b, err := m.device.NewBuffer(roundUp(int64(r.bytes), 16))
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
