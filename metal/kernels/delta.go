package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Delta is one token of the Gated DeltaNet mixer, up to its output projection. The step's slot_in and slot_out must
// differ: the state is read from the one and written to the other.
type Delta struct {
	Proj        Ref // f32, everything that the layer projects
	QKV         int // elements from Proj to q [KeyHeads*KeyDim], k (the same) and v [ValueHeads*ValueDim]
	Z           int // to [ValueHeads*ValueDim], the output gate
	B, A        int // to [ValueHeads] each, of write strength and decay
	ConvW       Ref // f32 [Taps][channels], the current token's tap last; channels are those of QKV
	Decay       Ref // f32 [ValueHeads]: -exp(A_log)
	DtBias      Ref // f32 [ValueHeads]
	Gain        Ref // f32 [ValueDim], of the gated norm
	Conv        Ref // bf16 [Slots][Layers][Taps-1][channels], oldest first
	Recurrent   Ref // f32 [Slots][Layers][ValueHeads][ValueDim][KeyDim], at a multiple of 16 bytes
	Slots       int
	Layer       int // among the Layers DeltaNet layers
	Layers      int
	KeyHeads    int
	ValueHeads  int // a multiple of KeyHeads: value head h goes with key head h/(ValueHeads/KeyHeads)
	KeyDim      int // 32, 64, 96, 128, 192 or 256
	ValueDim    int // a multiple of 32, at most 256
	Taps        int // 2 to 8
	Eps         float32
	Step        Ref // Step, for its slots
	Out         Ref // f32 [ValueHeads*ValueDim] in lane order
	mostThreads int // of a threadgroup; 0: as many as the pipeline allows
}

type deltaParams struct {
	KeyHeads, ValueHeads, Layer, Layers, QKV, Z, B, A, Simdgroups uint32
	Eps                                                           float32
}

// channels is the number of channels of the convolution.
func (d *Delta) channels() int { return 2*d.KeyHeads*d.KeyDim + d.ValueHeads*d.ValueDim }

func (d *Delta) check() error {
	switch d.KeyDim {
	case 32, 64, 96, 128, 192, 256:
	default:
		return fmt.Errorf("key heads of %d dims: want 32, 64, 96, 128, 192 or 256", d.KeyDim)
	}
	switch {
	case d.ValueDim < 32 || d.ValueDim > 256 || d.ValueDim%32 != 0:
		return fmt.Errorf("value heads of %d dims: want a multiple of 32, at most 256", d.ValueDim)
	case d.KeyHeads < 1 || d.ValueHeads < 1 || d.ValueHeads%d.KeyHeads != 0:
		return fmt.Errorf("%d value heads for %d key heads: want a multiple", d.ValueHeads, d.KeyHeads)
	case d.Taps < 2 || d.Taps > 8:
		return fmt.Errorf("a convolution of %d taps: want 2 to 8", d.Taps)
	case d.Slots < 2 || d.Layer < 0 || d.Layer >= d.Layers:
		return fmt.Errorf("layer %d of %d in %d slots: want 2 slots at least, and a layer that exists", d.Layer, d.Layers, d.Slots)
	case min(d.QKV, d.Z, d.B, d.A) < 0:
		return fmt.Errorf("projections at elements %d, %d, %d and %d: want none below 0", d.QKV, d.Z, d.B, d.A)
	case d.Recurrent.Offset%16 != 0:
		return fmt.Errorf("states at byte %d: want a multiple of 16", d.Recurrent.Offset)
	}
	return nil
}

// simdgroups is the most of which each gets a whole number of times the row groups that it holds at once, within limit
// threads. A row group is the rows that 32 lanes of four key dims or a multiple cover. As in delta.metal.
func (d *Delta) simdgroups(limit int) int {
	lanes, rows := d.KeyDim/4, 8 // of a row; row groups
	switch d.KeyDim {
	case 32:
		rows = 4
	case 96, 192:
		lanes, rows = lanes/3, 4
	case 256:
		lanes, rows = lanes/2, 4
	}
	blocks := d.ValueDim * lanes / metal.SimdWidth / rows
	n := min(blocks, limit/metal.SimdWidth)
	for blocks%n != 0 {
		n--
	}
	return n
}

// Delta prepares d.
func (s *Set) Delta(d Delta) (*metal.Dispatch, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("DeltaNet step: %w", err)
	}
	p, err := s.pipeline("delta", "delta", metal.Uint(0, uint32(d.KeyDim)), metal.Uint(1, uint32(d.ValueDim)), metal.Uint(2, uint32(d.Taps)))
	if err != nil {
		return nil, err
	}
	limit := p.MaxThreads()
	if d.mostThreads > 0 {
		limit = min(limit, d.mostThreads)
	}
	n := d.simdgroups(limit)
	heads := uint32(d.ValueHeads)
	params := deltaParams{uint32(d.KeyHeads), heads, uint32(d.Layer), uint32(d.Layers), uint32(d.QKV), uint32(d.Z),
		uint32(d.B), uint32(d.A), uint32(n), d.Eps}
	return s.dispatch(p, d.bindings(), params, metal.Line(d.ValueHeads), metal.Line(n*metal.SimdWidth))
}

func (d *Delta) bindings() []metal.Binding {
	channels, values, heads := int64(d.channels()), int64(d.ValueHeads*d.ValueDim), int64(d.ValueHeads)
	proj := d.Proj.in(4 * max(int64(d.QKV)+channels, int64(d.Z)+values, int64(d.B)+heads, int64(d.A)+heads))
	proj.Reads = 4 * (channels + values + 2*heads)
	window, state := int64(d.Taps-1)*channels*2, values*int64(d.KeyDim)*4
	places := int64(d.Slots) * int64(d.Layers)
	conv, recurrent := d.Conv.inout(places*window), d.Recurrent.inout(places*state)
	conv.Reads, conv.Writes = window, window
	recurrent.Reads, recurrent.Writes = state, state
	step := d.Step.in(StepBytes)
	step.Reads = 8 // both slots
	return []metal.Binding{proj, d.ConvW.in(int64(d.Taps) * channels * 4), d.Decay.in(4 * heads), d.DtBias.in(4 * heads),
		d.Gain.in(4 * int64(d.ValueDim)), conv, recurrent, step, d.Out.vectors(metal.Out, 1, d.ValueHeads*d.ValueDim)}
}
