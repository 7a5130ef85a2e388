package gpu

import (
	"slices"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/ref"
	"lilypad/worker/checkpoint"
	"lilypad/worker/state"
)

// planter makes bugs for a model of ck on d.
type planter struct {
	t *testing.T
	d *metal.Device
	m *Model // once it is made
}

// floats puts numbers into a buffer of their own.
func (p *planter) floats(v []float32) kernels.Ref {
	b, err := p.d.NewBuffer(int64(4 * len(v)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(b.Close)
	if err := b.Write(bytesOf(v), 0); err != nil {
		p.t.Fatal(err)
	}
	return kernels.Ref{Buffer: b}
}

// on plants a bug into the dispatches of one kind.
func on[T any](change func(spec *T)) func(any) any {
	return func(spec any) any {
		if s, ok := spec.(T); ok {
			change(&s)
			return s
		}
		return spec
	}
}

// bugs are those that a loose comparison of predictions would miss.
var bugs = map[string]func(p *planter, o *Options){
	"none": func(*planter, *Options) {},
	"state kept in bf16": func(p *planter, o *Options) {
		o.after = func(o *op) error {
			d, ok := o.spec.(kernels.Delta)
			if !ok {
				return nil
			}
			c := checker{m: p.m}
			size := d.ValueHeads * d.ValueDim * d.KeyDim
			at := d.Recurrent.At(4 * (int64(c.uints(d.Step, 4)[3])*int64(d.Layers) + int64(d.Layer)) * int64(size))
			v := c.floats(at, size)
			for i := range v {
				v[i] = ref.Round(v[i])
			}
			c.store([]output{floats("state", at, v)})
			return c.err
		}
	},
	"no RoPE in a layer": func(p *planter, o *Options) {
		none := make([]float32, 512*64)
		for i := 0; i < len(none); i += 2 {
			none[i] = 1
		}
		table := p.floats(none)
		other := p.floats(none)
		o.plant = on(func(a *kernels.AttentionPrep) { a.Coarse, a.Fine = table, other })
	},
	"an expert dropped": func(p *planter, o *Options) {
		o.plant = on(func(d *kernels.ExpertsDown) { d.Weights = p.floats([]float32{0, 0.4, 0.3, 0.5}) })
	},
	"attention scale 5 % off": func(p *planter, o *Options) {
		o.plant = on(func(a *kernels.AttentionPrep) {
			c := checker{m: p.m}
			gain := c.floats(a.QGain, a.HeadDim)
			for i := range gain {
				gain[i] *= 1.05
			}
			a.QGain = p.floats(gain)
		})
	},
	"ties go to the highest id": func(p *planter, o *Options) {
		o.after = func(o *op) error {
			r, ok := o.spec.(kernels.Route)
			if !ok {
				return nil
			}
			c := checker{m: p.m}
			ids := c.uints(r.IDs, r.TopK)
			for i, id := range ids {
				if other := id ^ 1; !slices.Contains(ids, other) { // its equal, which must be the higher one
					ids[i] = other
				}
			}
			c.store([]output{words("experts", r.IDs, ids)})
			return c.err
		}
	},
	"a stale state buffer": func(p *planter, o *Options) {
		o.plant = on(func(d *kernels.Delta) {
			stale := p.floats(make([]float32, kernels.StepBytes/4))
			if err := stale.Buffer.Write([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0}, 0); err != nil { // slot_in 2, slot_out 1
				p.t.Error(err)
			}
			d.Step = stale
		})
	},
	"the gain of another norm": func(p *planter, o *Options) {
		o.plant = on(func(l *kernels.Linear) {
			if l.Residual != nil {
				r := *l.Residual
				r.Gain = p.m.weights.norm
				l.Residual = &r
			}
		})
	},
}

// chunkBugs are the same in the kernels of chunks.
var chunkBugs = map[string]func(p *planter, o *Options){
	"none": func(*planter, *Options) {},
	"state kept in bf16": func(p *planter, o *Options) {
		o.after = func(o *op) error {
			gate, ok := o.spec.(deltaGate)
			if !ok {
				return nil
			}
			d, c := gate.PrefillDelta, checker{m: p.m}
			size := d.ValueHeads * d.ValueDim * d.KeyDim
			at := d.Recurrent.At(4 * (int64(c.uints(d.Step, 4)[3])*int64(d.Layers) + int64(d.Layer)) * int64(size))
			v := c.floats(at, size)
			for i := range v {
				v[i] = ref.Round(v[i])
			}
			c.store([]output{floats("state", at, v)})
			return c.err
		}
	},
	"no RoPE in a layer": func(p *planter, o *Options) {
		none := make([]float32, 512*64)
		for i := 0; i < len(none); i += 2 {
			none[i] = 1
		}
		table, other := p.floats(none), p.floats(none)
		o.plant = on(func(a *kernels.PrefillAttentionPrep) { a.Coarse, a.Fine = table, other })
	},
	"an expert dropped": func(p *planter, o *Options) {
		o.plant = on(func(c *kernels.CombineRows) {
			c.Weights = p.floats(slices.Repeat([]float32{0, 0.4, 0.3, 0.5}, c.Norm.Count))
		})
	},
	"attention scale 5 % off": func(p *planter, o *Options) {
		o.plant = on(func(a *kernels.PrefillAttentionPrep) {
			c := checker{m: p.m}
			gain := c.floats(a.QGain, a.HeadDim)
			for i := range gain {
				gain[i] *= 1.05
			}
			a.QGain = p.floats(gain)
		})
	},
	"ties go to the highest id": func(p *planter, o *Options) {
		o.after = func(o *op) error {
			r, ok := o.spec.(kernels.RouteRows)
			if !ok {
				return nil
			}
			c := checker{m: p.m}
			ids := c.uints(r.IDs, r.TopK)
			for i, id := range ids {
				if other := id ^ 1; !slices.Contains(ids, other) {
					ids[i] = other
				}
			}
			c.store([]output{words("experts", r.IDs, ids)})
			return c.err
		}
	},
	"a stale state buffer": func(p *planter, o *Options) {
		stale := func(d *kernels.PrefillDelta) {
			step := p.floats(make([]float32, kernels.StepBytes/4))
			if err := step.Buffer.Write([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0}, 0); err != nil { // slot_in 2, slot_out 1
				p.t.Error(err)
			}
			d.Step = step
		}
		o.plant = on(func(d *deltaScan) { stale(&d.PrefillDelta) })
	},
	"the gain of another norm": func(p *planter, o *Options) {
		o.plant = on(func(n *kernels.NormRows) { n.Gain = p.m.weights.norm })
	},
	"rows of a tile left out": func(p *planter, o *Options) {
		o.plant = on(func(u *kernels.ExpertsUpRows) { u.Grouped.Tiles = u.Grouped.Tiles.At(16) })
	},
}

// TestPlantedBugs: every bug makes some dispatch differ from its twin, and without one none does.
func TestPlantedBugs(t *testing.T) {
	check := func(t *testing.T, m *Model, s state.Sequence, report func(kind string, layer int, err error)) {
		for _, id := range []int32{5, 77, 300} {
			if _, err := m.Check(s, id, report); err != nil {
				t.Fatal(err)
			}
		}
	}
	plantBugs(t, bugs, check)
}

// TestPlantedBugsInChunks does the same for the kernels of chunks.
func TestPlantedBugsInChunks(t *testing.T) {
	check := func(t *testing.T, m *Model, s state.Sequence, report func(kind string, layer int, err error)) {
		for _, n := range []int{5, 12} {
			if _, err := m.CheckChunk(s, someTokens(n, m.Vocab()), report); err != nil {
				t.Fatal(err)
			}
		}
	}
	plantBugs(t, chunkBugs, check)
}

func plantBugs(t *testing.T, bugs map[string]func(p *planter, o *Options),
	check func(t *testing.T, m *Model, s state.Sequence, report func(kind string, layer int, err error))) {
	d := openDevice(t)
	for name, plant := range bugs {
		t.Run(name, func(t *testing.T) {
			p := &planter{t: t, d: d}
			opt := Options{Context: 128}
			plant(p, &opt)
			add := opt.plant
			opt.plant = nil
			p.m = newModel(t, d, paired(openTiny(t, "tiny-moe-r3", 0)), opt)
			p.m.dropPlan() // it has no bugs yet
			p.m.opt.plant = add
			s := newSequence(t, p.m)
			failures := 0
			check(t, p.m, s, func(kind string, layer int, err error) {
				if err != nil {
					failures++
					t.Logf("position %d, layer %d, %s: %v", s.Len(), layer, kind, err)
				}
			})
			if (failures > 0) != (name != "none") {
				t.Errorf("%d dispatches differ from their twins", failures)
			}
			s.Close()
			p.m.dropPlan()
		})
	}
}

// paired makes the router's rows equal in pairs, so that one of each pair is chosen by the tie-break alone.
func paired(ck *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	for i := range ck.Weights.Layers {
		if moe := ck.Weights.Layers[i].MoE; moe != nil {
			r := &moe.Router
			r.Data = slices.Clone(r.Data)
			n := r.RowBytes()
			for row := 0; row+1 < r.Rows; row += 2 {
				copy(r.Data[(row+1)*n:(row+2)*n], r.Data[row*n:(row+1)*n])
			}
		}
	}
	return ck
}
