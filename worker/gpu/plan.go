package gpu

import (
	"fmt"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

// op is one dispatch of a plan.
type op struct {
	spec     any  // what the dispatch was made of: kernels.Linear, kernels.Delta, ...
	layer    int  // -1 outside the layers
	level    bool // a new level begins here: a barrier goes before it
	dispatch *metal.Dispatch
}

// tail is what follows the layers of a token.
type tail int

const (
	noHead     tail = iota // the token's logits are not wanted
	logits                 // logits to scratch.logits[0]
	sampled                // logits to scratch.logits, and the next token is sampled from them
	sampledOdd             // with the other buffer of logits
	tails
)

// plan is the dispatches that compute one token. They read token, position and state slots from the Step in device
// memory and the sampler advances it, so the same recording serves every token and every sequence, as long as the
// buffers of states don't move. Only attention depends on the length: each route has layers of its own, made when first
// needed.
type plan struct {
	m          *Model
	routes     [][]op // by route: embedding and layers
	tails      [tails][]op
	recordings map[recordingKey]*metal.Recording
}

type recordingKey struct {
	route int
	tail  tail
}

func newPlan(m *Model) *plan {
	return &plan{m: m, routes: make([][]op, len(m.lengths)), recordings: map[recordingKey]*metal.Recording{}}
}

// token returns the dispatches of a token at position.
func (p *plan) token(position int, t tail) ([]op, error) {
	r := p.m.route(position)
	if p.routes[r] == nil {
		b := builder{m: p.m}
		b.layers(r)
		if b.err != nil {
			b.close()
			return nil, b.err
		}
		p.routes[r] = b.ops
	}
	if p.tails[t] == nil {
		b := builder{m: p.m}
		b.tail(t)
		if b.err != nil {
			b.close()
			return nil, b.err
		}
		p.tails[t] = b.ops
	}
	return append(p.routes[r][:len(p.routes[r]):len(p.routes[r])], p.tails[t]...), nil
}

// recording is token, recorded, with a barrier at the end.
func (p *plan) recording(position int, t tail) (*metal.Recording, error) {
	key := recordingKey{p.m.route(position), t}
	if r := p.recordings[key]; r != nil {
		return r, nil
	}
	ops, err := p.token(position, t)
	if err != nil {
		return nil, err
	}
	r, err := p.m.device.NewRecording(sequenceOf(ops))
	if err == nil {
		p.recordings[key] = r
	}
	return r, err
}

// sequenceOf lists dispatches with a barrier, nil, before each level but the first, and one at the end.
func sequenceOf(ops []op) []*metal.Dispatch {
	var list []*metal.Dispatch
	for i := range ops {
		if ops[i].level && i > 0 {
			list = append(list, nil)
		}
		list = append(list, ops[i].dispatch)
	}
	return append(list, nil)
}

// close frees everything; no pass may be in flight.
func (p *plan) close() {
	for _, r := range p.recordings {
		r.Close()
	}
	for _, list := range append(p.routes, p.tails[:]...) {
		closeOps(list)
	}
}

func closeOps(list []op) {
	for i := range list {
		list[i].dispatch.Close()
	}
}

// builder makes dispatches in order and keeps the first error.
type builder struct {
	m     *Model
	ops   []op
	layer int
	fresh bool // the next dispatch begins a level
	err   error
}

// barrier begins a level: what follows may read what was written before.
func (b *builder) barrier() { b.fresh = true }

// add appends the dispatch that was made of spec.
func (b *builder) add(spec any, d *metal.Dispatch, err error) {
	if b.err != nil {
		if d != nil {
			d.Close()
		}
		return
	}
	if err != nil {
		b.err = fmt.Errorf("layer %d: %w", b.layer, err)
		return
	}
	b.ops = append(b.ops, op{spec: spec, layer: b.layer, level: b.fresh, dispatch: d})
	b.fresh = false
}

// planted is spec with the bug that a test plants.
func planted[T any](b *builder, spec T) T {
	if b.m.opt.plant == nil {
		return spec
	}
	return b.m.opt.plant(spec).(T)
}

func (b *builder) close() { closeOps(b.ops) }

// layers adds the embedding and all layers with attention by route.
func (b *builder) layers(route int) {
	m := b.m
	b.layer = -1
	b.embed()
	for i := range m.weights.layers {
		l := &m.weights.layers[i]
		b.layer = i
		if l.attn != nil {
			b.attention(l, route)
		} else {
			b.delta(l)
		}
		next := m.weights.norm
		if i+1 < len(m.weights.layers) {
			next = m.weights.layers[i+1].inputGain
		}
		if l.moe != nil {
			b.moe(l.moe, next)
		} else {
			b.mlp(l.mlp, next)
		}
	}
}

// norm reads the residual's squares, residual makes them, together with the residual multiplied by the gain of the norm
// that comes next.
func (b *builder) norm() *kernels.Norm {
	s := &b.m.scratch
	return &kernels.Norm{Squares: s.squares, Parts: s.parts, Eps: b.m.shape.NormEps}
}

func (b *builder) residual(gain kernels.Ref) kernels.Residual {
	s := &b.m.scratch
	return kernels.Residual{H: s.h, Gained: s.gained, Squares: s.squares, Gain: gain}
}

func (b *builder) linear(l kernels.Linear) {
	if b.err == nil {
		d, err := b.m.kernels.Linear(planted(b, l))
		b.add(l, d, err)
	}
}

// project multiplies the normed residual by all parts of p, in one level.
func (b *builder) project(p *projection, out kernels.Ref) {
	for _, part := range p.parts {
		b.linear(kernels.Linear{W: part.matrix, X: b.m.scratch.gained, Norm: b.norm(), Out: out.At(int64(4 * part.first))})
	}
}
