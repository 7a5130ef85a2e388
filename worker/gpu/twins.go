package gpu

import (
	"fmt"
	"slices"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

func (c *checker) embed(e kernels.Embed) []output {
	token := int(c.uints(e.Step, 1)[0])
	return c.residual(e.Residual, slices.Clone(c.matrix(e.W).Row(token)))
}

// residual is all that a change of the residual to h writes.
func (c *checker) residual(r kernels.Residual, h []float32) []output {
	gain := c.floats(r.Gain, len(h))
	return []output{
		floats("residual", r.H, h), vector("gained", r.Gained, ref.Gained(h, gain)), floats("squares", r.Squares, ref.Squares(h)),
	}
}

func (c *checker) linear(l kernels.Linear) []output {
	scale := float32(1)
	if l.Norm != nil {
		scale = c.inverse(*l.Norm)
	}
	y := ref.Linear(c.matrix(l.W), c.vector(l.X, l.W.Cols), scale)
	switch {
	case l.Residual != nil:
		h := c.floats(l.Residual.H, len(y))
		for i := range h {
			h[i] += y[i]
		}
		return c.residual(*l.Residual, h)
	case l.SwiGLU:
		return []output{vector("outputs", l.Out, ref.SwiGLU(y))}
	case l.Best != nil:
		return []output{floats("logits", l.Out, y), {name: "best", at: l.Best.Partials, words: func() []uint32 { return c.best(l) }}}
	}
	return []output{floats("outputs", l.Out, y)}
}

// best is the argmax partials, which are exact, of the logits that are in place.
func (c *checker) best(l kernels.Linear) []uint32 {
	n := l.W.Rows
	raw := c.uints(l.Out, n)
	var out []uint32
	for i, p := range ref.Best(c.floats(l.Out, n), c.uints(l.Best.Allowed, (n+31)/32), kernels.BestRows) {
		logit := c.uints(l.Best.Partials.At(int64(8*i)), 1)[0] // where nothing is allowed it may be anything
		if p.ID < uint32(n) {
			logit = raw[p.ID]
		}
		out = append(out, logit, p.ID)
	}
	return out
}

func (c *checker) route(r kernels.Route) []output {
	ids, weights := ref.Route(c.floats(r.Logits, r.Experts), c.floats(r.Shared, 1)[0], r.TopK, r.Normalise)
	return []output{words("experts", r.IDs, ids), floats("weights", r.Weights, weights)}
}

// experts reads the matrices of the experts in the slots.
func (c *checker) experts(e kernels.Experts, m kernels.Matrix, ids []uint32) []ref.Matrix {
	var list []ref.Matrix
	for _, id := range ids {
		if int(id) >= e.Count {
			c.err = fmt.Errorf("expert %d of %d was chosen", id, e.Count)
			break
		}
		one := m
		one.Codes += int64(id) * e.Stride
		one.Pairs += int64(id) * e.Stride
		list = append(list, c.matrix(one))
	}
	return list
}

func (c *checker) expertsUp(u kernels.ExpertsUp) []output {
	gateUp := c.experts(u.Experts, u.Experts.GateUp, c.uints(u.IDs, u.TopK))
	if c.err != nil {
		return nil
	}
	out := ref.ExpertsUp(gateUp, c.vector(u.X, u.Experts.GateUp.Cols), c.inverse(u.Norm))
	return []output{vectors("outputs", u.Out, out, u.Experts.Down.Cols)}
}

func (c *checker) expertsDown(d kernels.ExpertsDown) []output {
	down := c.experts(d.Experts, d.Experts.Down, c.uints(d.IDs, d.TopK))
	if c.err != nil {
		return nil
	}
	m := d.Experts.Down
	return c.residual(d.Residual, ref.ExpertsDown(c.floats(d.Residual.H, m.Rows), c.floats(d.Weights, d.TopK+1), down,
		c.vectors(d.X, d.TopK*m.Cols, m.Cols), c.matrix(d.Shared), c.vector(d.SharedX, d.Shared.Cols)))
}

// sample is the choice and how the step moves on.
func (c *checker) sample(s kernels.Sample) []output {
	step := c.uints(s.Step, kernels.StepBytes/4)
	allowed := c.uints(s.Allowed, (s.Vocab+31)/32)
	id, outcome := ref.Sample(c.floats(s.Logits, s.Vocab), func(id int) bool { return allowed[id/32]>>(id%32)&1 != 0 },
		c.sampling(s.Params), int(step[1])+1)
	flags := map[ref.Outcome]uint32{ref.NotANumber: kernels.SampleNaN, ref.NothingToDraw: kernels.SampleNone}[outcome]
	slot := int64(step[5]%kernels.Results) * kernels.ResultBytes
	return []output{
		words("result", s.Results.At(slot), []uint32{id, flags}),
		words("step", s.Step, []uint32{id, step[1] + 1, step[3], step[2], step[4], step[5] + 1}),
	}
}

func (c *checker) sampling(r kernels.Ref) ref.Sampling {
	f, u := c.floats(r, 8), c.uints(r, 8)
	return ref.Sampling{Temperature: f[0], TopK: int(u[1]), TopP: f[2], MinP: f[3], Seed: uint64(u[4]) | uint64(u[5])<<32, Choice: u[6]}
}
