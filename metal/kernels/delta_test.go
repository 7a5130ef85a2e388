package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
)

// deltaShape is heads of keys and values, their dims, taps.
type deltaShape struct{ keyHeads, valueHeads, keyDim, valueDim, taps int }

var deltaShapes = []struct {
	name string
	deltaShape
}{
	{"35B, two key heads", deltaShape{2, 4, 128, 128, 4}},
	{"demo", deltaShape{2, 4, 64, 64, 4}},
	{"tiny, r=1", deltaShape{3, 3, 32, 32, 4}},
	{"r=3", deltaShape{2, 6, 32, 64, 2}},
	{"r=4, wide", deltaShape{1, 4, 256, 256, 4}},
	{"three quarters", deltaShape{1, 2, 96, 160, 8}},
	{"three halves", deltaShape{2, 2, 192, 32, 3}},
	{"narrow keys", deltaShape{1, 1, 32, 256, 5}},
}

// deltaFixture is random inputs in an arena and the twin that has the same.
type deltaFixture struct {
	kernels.Delta
	twin ref.Delta
}

const deltaSlots, deltaLayers, deltaLayer = 3, 2, 1

// newDelta fills a with the inputs of a token whose state is in slot from.
func newDelta(a *fixture.Arena, s deltaShape, from, to uint32) *deltaFixture {
	f := &deltaFixture{Delta: kernels.Delta{KeyHeads: s.keyHeads, ValueHeads: s.valueHeads, KeyDim: s.keyDim, ValueDim: s.valueDim,
		Taps: s.taps, Slots: deltaSlots, Layer: deltaLayer, Layers: deltaLayers, Eps: 1e-6}}
	channels, values := 2*s.keyHeads*s.keyDim+s.valueHeads*s.valueDim, s.valueHeads*s.valueDim
	f.QKV, f.Z = 2, 2+channels+1 // odd places, with others' numbers between
	f.B = f.Z + values
	f.A = f.B + s.valueHeads + 3
	proj := a.Normal(f.A+s.valueHeads, 0, 1)
	f.Proj = a.PutFloats(proj)
	t := &f.twin
	*t = ref.Delta{KeyHeads: s.keyHeads, ValueHeads: s.valueHeads, KeyDim: s.keyDim, ValueDim: s.valueDim, Taps: s.taps, Eps: 1e-6,
		QKV: proj[f.QKV:][:channels], Z: proj[f.Z:][:values], B: proj[f.B:][:s.valueHeads], A: proj[f.A:][:s.valueHeads],
		ConvW: a.Normal(s.taps*channels, 0, 0.5), Decay: a.Normal(s.valueHeads, -2, 0.5), DtBias: a.Normal(s.valueHeads, -2, 2),
		Gain: a.Normal(s.valueDim, 1, 0.2)}
	f.ConvW, f.Decay, f.DtBias, f.Gain = a.PutFloats(t.ConvW), a.PutFloats(t.Decay), a.PutFloats(t.DtBias), a.PutFloats(t.Gain)
	window, state := (s.taps-1)*channels, values*s.keyDim
	conv := a.Normal(deltaSlots*deltaLayers*window, 0, 1)
	recurrent := a.Normal(deltaSlots*deltaLayers*state, 0, 0.3)
	f.Conv, f.Recurrent = a.PutBfloats(conv), a.PutFloats(recurrent)
	at := int(from)*deltaLayers + deltaLayer
	t.Conv, t.Recurrent = slices.Clone(conv[at*window:][:window]), slices.Clone(recurrent[at*state:][:state])
	f.Step = a.PutUints(7, 8, from, to, 0, 0, 0, 0)
	f.Out = a.Room(kernels.VectorBytes(values))
	return f
}

// putFloats replaces numbers.
func putFloats(a *fixture.Arena, at kernels.Ref, v []float32) {
	b := a.Bytes(at, int64(4*len(v)))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
}

// putBfloats replaces numbers, which are rounded in place.
func putBfloats(a *fixture.Arena, at kernels.Ref, v []float32) {
	b := a.Bytes(at, int64(2*len(v)))
	for i, x := range v {
		v[i] = ref.Round(x)
		binary.LittleEndian.PutUint16(b[2*i:], ref.Bfloat(x))
	}
}

// check compares what the arena holds after a dispatch with the twin's token, and readies the twin for the next.
func (f *deltaFixture) check(a *fixture.Arena, to uint32) error {
	t := &f.twin
	want := t.Advance()
	if err := fixture.CompareFloats(a.Vector(f.Out, len(want)), want, 1e-5); err != nil {
		return fmt.Errorf("outputs: %w", err)
	}
	at := int64(to)*deltaLayers + deltaLayer
	if err := fixture.CompareFloats(a.Floats(f.Recurrent.At(at*int64(4*len(t.Recurrent))), len(t.Recurrent)), t.Recurrent, 1e-5); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := fixture.CompareBfloats(a.Bfloats(f.Conv.At(at*int64(2*len(t.Conv))), len(t.Conv)), t.Conv, 0, 0); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	for i, v := range t.Conv {
		t.Conv[i] = ref.Round(v) // as the window keeps it
	}
	return nil
}

func TestDelta(t *testing.T) {
	for i, c := range deltaShapes {
		t.Run(c.name, func(t *testing.T) {
			from, to := uint32(i%deltaSlots), uint32((i+1)%deltaSlots)
			device, set, arena := newFixture(t, 16<<20, 11)
			f := newDelta(arena, c.deltaShape, from, to)
			op, err := set.Delta(f.Delta)
			runFixture(t, device, arena, op, err)
			if err := f.check(arena, to); err != nil {
				t.Error(err)
			}
		})
	}
}

// Gates at their ends: no decay, total decay, no write, and channels of zeros, whose L2 norm is that of eps.
func TestDeltaExtremes(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(proj, decay []float32, f *deltaFixture)
	}{
		{"no decay", func(proj, decay []float32, f *deltaFixture) { fill(proj[f.A:], -80) }},
		{"slow decay", func(proj, decay []float32, f *deltaFixture) { fill(proj[f.A:], -12) }},
		{"total decay", func(proj, decay []float32, f *deltaFixture) { fill(proj[f.A:], 200) }},
		{"no write", func(proj, decay []float32, f *deltaFixture) { fill(proj[f.B:f.A], -100) }},
		{"zeros", func(proj, decay []float32, f *deltaFixture) { fill(proj[:f.Z], 0) }},
		{"large", func(proj, decay []float32, f *deltaFixture) { scaleAll(proj[:f.Z], 1e4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			device, set, arena := newFixture(t, 4<<20, 12)
			f := newDelta(arena, deltaShapes[1].deltaShape, 0, 1)
			proj := arena.Floats(f.Proj, f.A+f.ValueHeads)
			c.edit(proj, f.twin.Decay, f)
			f.Proj = arena.PutFloats(proj)
			t1 := &f.twin
			t1.QKV, t1.Z = proj[f.QKV:][:len(t1.QKV)], proj[f.Z:][:len(t1.Z)]
			t1.B, t1.A = proj[f.B:][:f.ValueHeads], proj[f.A:][:f.ValueHeads]
			op, err := set.Delta(f.Delta)
			runFixture(t, device, arena, op, err)
			if err := f.check(arena, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

func fill(v []float32, x float32) {
	for i := range v {
		v[i] = x
	}
}

func scaleAll(v []float32, x float32) {
	for i := range v {
		v[i] *= x
	}
}

// Forty tokens through alternating slots stay with the twin: errors don't grow.
func TestDeltaSequence(t *testing.T) {
	device, set, arena := newFixture(t, 4<<20, 13)
	f := newDelta(arena, deltaShapes[1].deltaShape, 0, 1)
	step := [2]kernels.Ref{f.Step, arena.PutUints(0, 0, 1, 0, 0, 0, 0, 0)}
	var ops [2]*metal.Dispatch
	for i := range ops {
		d := f.Delta
		d.Step = step[i]
		op, err := set.Delta(d)
		if err != nil {
			t.Fatal(err)
		}
		defer op.Close()
		ops[i] = op
	}
	for token := range 40 {
		proj := arena.Normal(f.A+f.ValueHeads, 0, 1)
		putFloats(arena, f.Proj, proj)
		t1 := &f.twin
		t1.QKV, t1.Z = proj[f.QKV:][:len(t1.QKV)], proj[f.Z:][:len(t1.Z)]
		t1.B, t1.A = proj[f.B:][:f.ValueHeads], proj[f.A:][:f.ValueHeads]
		if err := arena.Upload(); err != nil {
			t.Fatal(err)
		}
		if err := fixture.Run(device, ops[token%2]); err != nil {
			t.Fatal(err)
		}
		if err := arena.Download(); err != nil {
			t.Fatal(err)
		}
		if err := f.check(arena, uint32(1-token%2)); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
}

// The bits don't depend on how many simdgroups share a head, nor on the run.
func TestDeltaBits(t *testing.T) {
	for _, i := range []int{0, 5} {
		t.Run(deltaShapes[i].name, func(t *testing.T) {
			device, set, arena := newFixture(t, 8<<20, 14)
			f := newDelta(arena, deltaShapes[i].deltaShape, 2, 0)
			var want []byte
			for _, threads := range []int{0, 64, 256, 0} {
				op, err := set.Delta(kernels.DeltaOf(f.Delta, threads))
				runFixture(t, device, arena, op, err)
				got := append(bytes.Clone(arena.Bytes(f.Out, kernels.VectorBytes(len(f.twin.Z)))),
					arena.Bytes(f.Recurrent, int64(4*len(f.twin.Recurrent)))...)
				if want == nil {
					want = got
				} else if !bytes.Equal(got, want) {
					t.Errorf("at most %d threads give other bits", threads)
				}
			}
		})
	}
}

func TestDeltaRefusals(t *testing.T) {
	set := countingSet(t)
	good := kernels.Delta{KeyHeads: 2, ValueHeads: 4, KeyDim: 64, ValueDim: 64, Taps: 4, Slots: 2, Layers: 1}
	for _, c := range []struct {
		name string
		edit func(d *kernels.Delta)
		want string
	}{
		{"key dims", func(d *kernels.Delta) { d.KeyDim = 48 }, "key heads of 48 dims"},
		{"value dims", func(d *kernels.Delta) { d.ValueDim = 288 }, "value heads of 288 dims"},
		{"ratio", func(d *kernels.Delta) { d.KeyHeads = 3 }, "4 value heads for 3 key heads"},
		{"taps", func(d *kernels.Delta) { d.Taps = 9 }, "9 taps"},
		{"one slot", func(d *kernels.Delta) { d.Slots = 1 }, "in 1 slots"},
		{"layer", func(d *kernels.Delta) { d.Layer = 1 }, "layer 1 of 1"},
		{"alignment", func(d *kernels.Delta) { d.Recurrent.Offset = 8 }, "states at byte 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := good
			c.edit(&d)
			if _, err := set.Delta(d); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// countingSet is a set for a device that runs nothing.
func countingSet(t testing.TB) *kernels.Set {
	t.Helper()
	device, err := sim.Open(sim.Options{Target: sim.Count})
	if err != nil {
		t.Fatal(err)
	}
	set := kernels.New(device)
	t.Cleanup(func() {
		set.Close()
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// The twin's recurrence is the textbook's for a state of one number.
func TestDeltaTwin(t *testing.T) {
	d := ref.Delta{KeyHeads: 1, ValueHeads: 1, KeyDim: 1, ValueDim: 1, Taps: 2, Eps: 0, QKV: []float32{1, 1, 2}, Z: []float32{3},
		B: []float32{0}, A: []float32{0}, ConvW: []float32{0, 0, 0, 1, 1, 1}, Decay: []float32{-1}, DtBias: []float32{0},
		Gain: []float32{1}, Conv: []float32{9, 9, 9}, Recurrent: []float32{1}}
	out := d.Advance()
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	// k and q are 1 (up to eps), alpha is 1/2: s = 1/2 + 1/2 (silu(2) - 1/2), and a norm of one number is its sign.
	if want := 0.25 + silu(2)/2; math.Abs(float64(d.Recurrent[0])-want) > 1e-5 {
		t.Errorf("state %v, want %v", d.Recurrent[0], want)
	}
	if want := silu(3); math.Abs(float64(out[0])-want) > 1e-5 {
		t.Errorf("output %v, want %v", out[0], want)
	}
	if d.Conv[0] != 1 || d.Conv[2] != 2 {
		t.Errorf("window %v, want the token's channels", d.Conv)
	}
}
