package kernels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

// deltaChunk is random projections of a chunk of tokens in an arena and the twin that has the same.
type deltaChunk struct {
	kernels.PrefillDelta
	twin         ref.Delta
	qkv, z, b, a [][]float32
}

// newDeltaChunk fills a with the inputs of rows tokens, after edit has changed the projections of each.
func newDeltaChunk(arena *fixture.Arena, s deltaShape, rows int, proj, window kernels.Type, from, to uint32, edit func(d *deltaChunk, row []float32)) *deltaChunk {
	d := &deltaChunk{PrefillDelta: kernels.PrefillDelta{Rows: rows, ProjType: proj, WindowType: window, KeyHeads: s.keyHeads, ValueHeads: s.valueHeads,
		KeyDim: s.keyDim, ValueDim: s.valueDim, Taps: s.taps, Slots: deltaSlots, Layer: deltaLayer, Layers: deltaLayers, Eps: 1e-6}}
	channels, values := 2*s.keyHeads*s.keyDim+s.valueHeads*s.valueDim, s.valueHeads*s.valueDim
	d.QKV, d.Z = 2, 2+channels+1 // odd places, with others' numbers between
	d.B = d.Z + values
	d.A = d.B + s.valueHeads + 3
	d.Width = d.A + s.valueHeads + 1
	numbers := arena.Normal(rows*d.Width, 0, 1)
	for t := range rows {
		if edit != nil {
			edit(d, numbers[t*d.Width:][:d.Width])
		}
	}
	d.Proj = putNumbers(arena, proj, numbers)
	for t := range rows {
		row := numbers[t*d.Width:][:d.Width]
		qkv := slices.Clone(row[d.QKV:][:channels])
		for i := range qkv {
			if window == kernels.BF16 {
				qkv[i] = ref.Round(qkv[i])
			}
		}
		d.qkv, d.z = append(d.qkv, qkv), append(d.z, row[d.Z:][:values])
		d.b, d.a = append(d.b, row[d.B:][:s.valueHeads]), append(d.a, row[d.A:][:s.valueHeads])
	}
	t := &d.twin
	*t = ref.Delta{KeyHeads: s.keyHeads, ValueHeads: s.valueHeads, KeyDim: s.keyDim, ValueDim: s.valueDim, Taps: s.taps, Eps: 1e-6,
		ConvW: arena.Normal(s.taps*channels, 0, 0.5), Decay: arena.Normal(s.valueHeads, -2, 0.5), DtBias: arena.Normal(s.valueHeads, -2, 2),
		Gain: arena.Normal(s.valueDim, 1, 0.2)}
	d.ConvW, d.Decay, d.DtBias, d.Gain = arena.PutFloats(t.ConvW), arena.PutFloats(t.Decay), arena.PutFloats(t.DtBias), arena.PutFloats(t.Gain)
	conv := arena.Normal(deltaSlots*deltaLayers*(s.taps-1)*channels, 0, 1)
	recurrent := arena.Normal(deltaSlots*deltaLayers*values*s.keyDim, 0, 0.3)
	d.Conv, d.Recurrent = putNumbers(arena, window, conv), arena.PutFloats(recurrent)
	at := int(from)*deltaLayers + deltaLayer
	n, m := (s.taps-1)*channels, values*s.keyDim
	t.Conv, t.Recurrent = slices.Clone(conv[at*n:][:n]), slices.Clone(recurrent[at*m:][:m])
	d.Step = arena.PutUints(7, 8, from, to, 0, 0, 0, 0)
	whole := d.PrefillDelta
	whole.Chunks = true
	d.Scratch, d.Out = arena.Room(whole.ScratchBytes()), arena.Room(int64(2*rows*values))
	return d
}

// deltaRoute prepares a dispatch of d.
type deltaRoute func(*kernels.Set, kernels.PrefillDelta) (*metal.Dispatch, error)

// deltaForms are the ways to run the recurrence, by PrefillDelta.Chunks.
var deltaForms = map[string]bool{"scan": false, "chunks": true}

// prefillDelta runs the dispatches of d, the arena being on the device.
func prefillDelta(t *testing.T, device *metal.Device, set *kernels.Set, d kernels.PrefillDelta) {
	t.Helper()
	routes := []deltaRoute{(*kernels.Set).PrefillDeltaPrep, (*kernels.Set).PrefillDeltaScan, (*kernels.Set).PrefillDeltaGate}
	if d.Chunks {
		routes = slices.Replace(routes, 1, 2, (*kernels.Set).PrefillDeltaSolve, (*kernels.Set).PrefillDeltaChunks)
	}
	var ops []*metal.Dispatch
	for _, prepare := range routes {
		op, err := prepare(set, d)
		if err != nil {
			t.Fatal(err)
		}
		defer op.Close()
		ops = append(ops, op, nil)
	}
	if err := fixture.Run(device, ops...); err != nil {
		t.Fatal(err)
	}
}

// check compares what the arena holds with the twin's tokens.
func (d *deltaChunk) check(a *fixture.Arena, to uint32) error {
	t := &d.twin
	values := d.ValueHeads * d.ValueDim
	for i, want := range t.AdvanceChunk(d.qkv, d.z, d.b, d.a) {
		if err := fixture.CompareHalves(a.Halves(d.Out.At(int64(2*i*values)), values), want, 2, 1e-3); err != nil {
			return fmt.Errorf("outputs of token %d: %w", i, err)
		}
	}
	at := int64(to)*deltaLayers + deltaLayer
	if err := fixture.CompareFloats(a.Floats(d.Recurrent.At(at*int64(4*len(t.Recurrent))), len(t.Recurrent)), t.Recurrent, 1e-5); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	window := d.Conv.At(at * int64(d.WindowType.Bytes()*len(t.Conv)))
	got := a.Floats
	if d.WindowType == kernels.BF16 {
		got = a.Bfloats
	}
	if err := fixture.CompareFloats(got(window, len(t.Conv)), t.Conv, 0); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	return nil
}

func TestPrefillDelta(t *testing.T) {
	lengths := []int{1, 2, 3, 63, 64, 65, 129}
	for name, chunks := range deltaForms {
		for i, c := range deltaShapes {
			if chunks && c.keyDim%64 != 0 {
				continue
			}
			t.Run(name+", "+c.name, func(t *testing.T) {
				for j, rows := range []int{lengths[i%len(lengths)], lengths[(i+3)%len(lengths)]} {
					from, to := uint32(i%deltaSlots), uint32((i+1)%deltaSlots)
					device, set, arena := newFixture(t, 48<<20, 11)
					proj, window := kernels.Type((i+j)%2*2), kernels.Type(i/2%2*2)
					d := newDeltaChunk(arena, c.deltaShape, rows, proj, window, from, to, nil)
					if err := arena.Upload(); err != nil {
						t.Fatal(err)
					}
					d.Chunks = chunks
					prefillDelta(t, device, set, d.PrefillDelta)
					if err := arena.Download(); err != nil {
						t.Fatal(err)
					}
					if err := d.check(arena, to); err != nil {
						t.Errorf("%d tokens: %v", rows, err)
					}
				}
			})
		}
	}
}

// Gates at their ends: no decay, total decay, no write, keys all alike, and channels of zeros, whose L2 norm is that of eps.
func TestPrefillDeltaExtremes(t *testing.T) {
	token := 0
	for _, c := range []struct {
		name string
		edit func(d *deltaChunk, row []float32)
	}{
		{"no decay", func(d *deltaChunk, row []float32) { fill(row[d.A:], -80) }},
		{"slow decay", func(d *deltaChunk, row []float32) { fill(row[d.A:], -12) }},
		{"total decay at times", func(d *deltaChunk, row []float32) {
			if token++; token%7 == 0 {
				fill(row[d.A:], 200)
			}
		}},
		{"no write", func(d *deltaChunk, row []float32) { fill(row[d.B:d.A], -100) }},
		{"full write of keys all alike", func(d *deltaChunk, row []float32) {
			fill(row[d.A:], -12)
			fill(row[d.B:d.A], 100)
			keys := d.QKV + d.KeyHeads*d.KeyDim
			fill(row[keys:][:d.KeyHeads*d.KeyDim], 1)
		}},
		{"zeros", func(d *deltaChunk, row []float32) { fill(row[:d.Z], 0) }},
		{"large", func(d *deltaChunk, row []float32) { scaleAll(row[:d.Z], 1e4) }},
	} {
		for name, chunks := range deltaForms {
			t.Run(name+", "+c.name, func(t *testing.T) {
				device, set, arena := newFixture(t, 8<<20, 12)
				d := newDeltaChunk(arena, deltaShapes[1].deltaShape, 70, kernels.BF16, kernels.BF16, 0, 1, c.edit)
				if err := arena.Upload(); err != nil {
					t.Fatal(err)
				}
				d.Chunks = chunks
				prefillDelta(t, device, set, d.PrefillDelta)
				if err := arena.Download(); err != nil {
					t.Fatal(err)
				}
				if err := d.check(arena, 1); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// However a chunk is cut, the outputs are those of the twin; cut at multiples of 64 tokens, and with the scan anywhere, they
// have the same bits.
func TestPrefillDeltaCuts(t *testing.T) {
	const tokens = 131
	for name, chunks := range deltaForms {
		whole := runDeltaCut(t, chunks, tokens, nil)
		for _, cuts := range [][]int{{1, 2}, {3, 66}, {64, 128}, {65, 130}} {
			t.Run(fmt.Sprint(name, cuts), func(t *testing.T) {
				if got := runDeltaCut(t, chunks, tokens, cuts); (!chunks || cuts[0] == 64) && !slices.Equal(got, whole) {
					t.Error("other bits than uncut")
				}
			})
		}
	}
}

// runDeltaCut runs a chunk of tokens cut in up to three, checks it and gives its outputs.
func runDeltaCut(t *testing.T, chunks bool, tokens int, cuts []int) []float32 {
	t.Helper()
	device, set, arena := newFixture(t, 16<<20, 13)
	d := newDeltaChunk(arena, deltaShapes[1].deltaShape, tokens, kernels.F32, kernels.BF16, 0, 2, nil)
	steps := []kernels.Ref{arena.PutUints(0, 0, 0, 1, 0, 0, 0, 0), arena.PutUints(0, 0, 1, 0, 0, 0, 0, 0)}
	last := uint32(len(cuts) % 2) // the slot before the last cut
	steps = append(steps[:len(cuts)], arena.PutUints(0, 0, last, 2, 0, 0, 0, 0))
	if err := arena.Upload(); err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, end := range append(slices.Clone(cuts), tokens) {
		part := d.PrefillDelta
		part.Chunks = chunks
		part.Rows, part.Step = end-at, steps[i]
		part.Proj = part.Proj.At(int64(4 * at * part.Width))
		part.Out = part.Out.At(int64(2 * at * part.ValueHeads * part.ValueDim))
		prefillDelta(t, device, set, part)
		at = end
	}
	if err := arena.Download(); err != nil {
		t.Fatal(err)
	}
	if err := d.check(arena, 2); err != nil {
		t.Error(err)
	}
	return arena.Halves(d.Out, tokens*d.ValueHeads*d.ValueDim)
}

func TestPrefillDeltaRefuses(t *testing.T) {
	_, set, arena := newFixture(t, 8<<20, 1)
	d := newDeltaChunk(arena, deltaShapes[1].deltaShape, 3, kernels.F32, kernels.BF16, 0, 1, nil)
	for _, c := range []struct {
		edit func(*kernels.PrefillDelta)
		want string
	}{
		{func(d *kernels.PrefillDelta) { d.Rows = 0 }, "0 tokens: want 1 to 4096"},
		{func(d *kernels.PrefillDelta) { d.KeyDim, d.Chunks = 96, true }, "key heads of 96 dims by chunks"},
		{func(d *kernels.PrefillDelta) { d.KeyDim = 48 }, "key heads of 48 dims"},
		{func(d *kernels.PrefillDelta) { d.ValueDim = 288 }, "value heads of 288 dims"},
		{func(d *kernels.PrefillDelta) { d.KeyHeads = 3 }, "4 value heads for 3 key heads"},
		{func(d *kernels.PrefillDelta) { d.Taps = 9 }, "9 taps"},
		{func(d *kernels.PrefillDelta) { d.Slots = 1 }, "in 1 slots"},
		{func(d *kernels.PrefillDelta) { d.WindowType = kernels.F16 }, "type 1"},
		{func(d *kernels.PrefillDelta) { d.Width--; d.A++ }, "not within"},
		{func(d *kernels.PrefillDelta) { d.Scratch.Offset += 8 }, "want multiples of 16"},
		{func(d *kernels.PrefillDelta) { d.Proj.Offset += 2 }, "multiples of their numbers' sizes"},
	} {
		e := d.PrefillDelta
		c.edit(&e)
		for _, prepare := range []deltaRoute{(*kernels.Set).PrefillDeltaPrep, (*kernels.Set).PrefillDeltaScan, (*kernels.Set).PrefillDeltaGate} {
			if _, err := prepare(set, e); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		}
	}
}
