package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Limits of prefill_delta.metal.
const (
	deltaPrepTokens = 16 // TOKENS
	deltaGateTokens = 8  // GATED
	deltaScanRows   = 32 // ROWS
	deltaScanSets   = 2  // rows of a lane
)

// PrefillDelta is a chunk of tokens of the Gated DeltaNet mixer, up to its output projection, in dispatches that depend on
// each other: PrefillDeltaPrep; the recurrence, which is PrefillDeltaScan, or PrefillDeltaSolve and PrefillDeltaChunks; and
// PrefillDeltaGate. The step's slot_in and slot_out must differ: window and state are read from the one and written to the
// other. Projections count rounded to the window's type. Where chunks are cut changes no bits with the scan; with chunks of
// 64 it does, but at multiples of 64 tokens from the start.
type PrefillDelta struct {
	Rows       int  // tokens, at most 4,096
	Proj       Ref  // [Rows][Width] of ProjType, everything that the layer projects
	ProjType   Type // BF16 or F32
	Width      int
	QKV        int  // elements from a row's start to q [KeyHeads*KeyDim], k (the same) and v [ValueHeads*ValueDim]
	Z          int  // to [ValueHeads*ValueDim], the output gate
	B, A       int  // to [ValueHeads] each, of write strength and decay
	ConvW      Ref  // f32 [Taps][channels], the current token's tap last; channels are those of QKV
	Decay      Ref  // f32 [ValueHeads]: -exp(A_log)
	DtBias     Ref  // f32 [ValueHeads]
	Gain       Ref  // f32 [ValueDim], of the gated norm
	Conv       Ref  // [Slots][Layers][Taps-1][channels] of WindowType, oldest first
	WindowType Type // BF16 or F32
	Recurrent  Ref  // f32 [Slots][Layers][ValueHeads][ValueDim][KeyDim], at a multiple of 16 bytes
	Slots      int
	Layer      int // among the Layers DeltaNet layers
	Layers     int
	KeyHeads   int
	ValueHeads int // a multiple of KeyHeads: value head h goes with key head h/(ValueHeads/KeyHeads)
	KeyDim     int // 32, 64, 96, 128, 192 or 256
	ValueDim   int // a multiple of 32, at most 256
	Taps       int // 2 to 8
	Eps        float32
	Step       Ref  // Step, for its slots
	Scratch    Ref  // ScratchBytes, at a multiple of 16 bytes
	Chunks     bool // the recurrence goes by chunks, for which KeyDim must be a multiple of 64; docs/prefill.md has when that pays
	Out        Ref  // f16 [Rows][ValueHeads*ValueDim]
}

type prefillDeltaParams struct {
	Rows, KeyHeads, ValueHeads, Layer, Layers, Width, QKV, Z, B, A uint32
	Eps                                                            float32
	Padded                                                         uint32
}

func (d *PrefillDelta) channels() int64 {
	return int64(2*d.KeyHeads*d.KeyDim + d.ValueHeads*d.ValueDim)
}

// keyBytes, valueBytes and gateBytes are the sizes of what the dispatches exchange, all f32: normed queries or keys
// [Rows][KeyHeads][KeyDim], values, then outputs, [Rows][ValueHeads][ValueDim], (decay, write strength) [Rows][ValueHeads].
func (d *PrefillDelta) keyBytes() int64 { return 4 * int64(d.padded()) * int64(d.KeyHeads*d.KeyDim) }
func (d *PrefillDelta) valueBytes() int64 {
	return 4 * int64(d.padded()) * int64(d.ValueHeads*d.ValueDim)
}
func (d *PrefillDelta) gateBytes() int64 { return 8 * int64(d.padded()) * int64(d.ValueHeads) }

// ScratchBytes is the size of what the dispatches exchange.
func (d *PrefillDelta) ScratchBytes() int64 {
	return 2*d.keyBytes() + d.valueBytes() + d.gateBytes() + 2*d.matrixBytes()
}

// parts are the places of queries, keys, values and gates.
func (d *PrefillDelta) parts() (queries, keys, values, gates Ref) {
	keys = d.Scratch.At(d.keyBytes())
	values = keys.At(d.keyBytes())
	return d.Scratch, keys, values, values.At(d.valueBytes())
}

func (d *PrefillDelta) check() error {
	switch d.KeyDim {
	case 32, 64, 96, 128, 192, 256:
	default:
		return fmt.Errorf("key heads of %d dims: want 32, 64, 96, 128, 192 or 256", d.KeyDim)
	}
	switch {
	case d.Chunks && d.KeyDim%64 != 0:
		return fmt.Errorf("key heads of %d dims by chunks: want a multiple of 64", d.KeyDim)
	case d.Rows < 1 || d.Rows > mostPrefill:
		return fmt.Errorf("%d tokens: want 1 to %d", d.Rows, mostPrefill)
	case d.ValueDim < 32 || d.ValueDim > 256 || d.ValueDim%32 != 0:
		return fmt.Errorf("value heads of %d dims: want a multiple of 32, at most 256", d.ValueDim)
	case d.KeyHeads < 1 || d.ValueHeads < 1 || d.ValueHeads%d.KeyHeads != 0:
		return fmt.Errorf("%d value heads for %d key heads: want a multiple", d.ValueHeads, d.KeyHeads)
	case d.Taps < 2 || d.Taps > 8:
		return fmt.Errorf("a convolution of %d taps: want 2 to 8", d.Taps)
	case d.Slots < 2 || d.Layer < 0 || d.Layer >= d.Layers:
		return fmt.Errorf("layer %d of %d in %d slots: want 2 slots at least, and a layer that exists", d.Layer, d.Layers, d.Slots)
	}
	return d.checkPlaces()
}

func (d *PrefillDelta) checkPlaces() error {
	for _, t := range []Type{d.ProjType, d.WindowType} {
		if t != BF16 && t != F32 {
			return fmt.Errorf("projections or a window of type %d: want bf16 or f32", t)
		}
	}
	values := d.ValueHeads * d.ValueDim
	switch {
	case min(d.QKV, d.Z, d.B, d.A) < 0 || max(d.QKV+int(d.channels()), d.Z+values, d.B+d.ValueHeads, d.A+d.ValueHeads) > d.Width:
		return fmt.Errorf("projections at elements %d, %d, %d and %d: not within %d", d.QKV, d.Z, d.B, d.A, d.Width)
	case d.Recurrent.Offset%16 != 0 || d.Scratch.Offset%16 != 0:
		return fmt.Errorf("states at byte %d, scratch at %d: want multiples of 16", d.Recurrent.Offset, d.Scratch.Offset)
	case d.Proj.Offset%int64(d.ProjType.Bytes()) != 0 || d.Conv.Offset%int64(d.WindowType.Bytes()) != 0:
		return fmt.Errorf("projections at byte %d, window at %d: want multiples of their numbers' sizes", d.Proj.Offset, d.Conv.Offset)
	}
	return nil
}

func (d *PrefillDelta) params() prefillDeltaParams {
	return prefillDeltaParams{uint32(d.Rows), uint32(d.KeyHeads), uint32(d.ValueHeads), uint32(d.Layer), uint32(d.Layers), uint32(d.Width),
		uint32(d.QKV), uint32(d.Z), uint32(d.B), uint32(d.A), d.Eps, uint32(d.padded())}
}

// pipelineOf checks d and specialises a kernel of prefill_delta.metal.
func (s *Set) pipelineOf(d *PrefillDelta, function string) (*metal.Pipeline, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("DeltaNet over a chunk: %w", err)
	}
	return s.pipeline("prefill_delta", function, metal.Uint(0, uint32(d.KeyDim)), metal.Uint(1, uint32(d.ValueDim)),
		metal.Uint(2, uint32(d.Taps)), metal.Bool(3, d.ProjType == F32), metal.Bool(4, d.WindowType == F32))
}

// proj binds the projections, of which n elements of each row are read.
func (d *PrefillDelta) proj(n int64) metal.Binding {
	row := int64(d.Rows) * int64(d.ProjType.Bytes())
	b := d.Proj.in(row * int64(d.Width))
	b.Reads = row * n
	return b
}

// PrefillDeltaPrep prepares the first dispatch of d: convolution, L2 norms and gates, and the window's move.
func (s *Set) PrefillDeltaPrep(d PrefillDelta) (*metal.Dispatch, error) {
	p, err := s.pipelineOf(&d, "prefill_delta_prep")
	if err != nil {
		return nil, err
	}
	channels, heads := d.channels(), int64(d.ValueHeads)
	queries, keys, values, gates := d.parts()
	window := int64(d.Taps-1) * channels * int64(d.WindowType.Bytes())
	conv := d.Conv.inout(int64(d.Slots) * int64(d.Layers) * window)
	conv.Reads, conv.Writes = window, window
	step := d.Step.in(StepBytes)
	step.Reads = 8 // both slots
	grid := metal.Size{X: 2*d.KeyHeads + d.ValueHeads + 1, Y: (d.padded() + deltaPrepTokens - 1) / deltaPrepTokens, Z: 1}
	return s.dispatch(p, []metal.Binding{d.proj(channels + 2*heads), d.ConvW.in(int64(d.Taps) * channels * 4), d.Decay.in(4 * heads),
		d.DtBias.in(4 * heads), conv, step, queries.out(d.keyBytes()), keys.out(d.keyBytes()), values.out(d.valueBytes()),
		gates.out(d.gateBytes())}, d.params(), grid, metal.Line(metal.SimdWidth))
}

// PrefillDeltaScan prepares the second dispatch of d: the recurrence, token by token, with the state in registers.
func (s *Set) PrefillDeltaScan(d PrefillDelta) (*metal.Dispatch, error) {
	p, err := s.pipelineOf(&d, "prefill_delta_scan")
	if err != nil {
		return nil, err
	}
	grid := metal.Size{X: d.ValueDim / deltaScanRows, Y: d.ValueHeads, Z: 1}
	return s.dispatch(p, d.recurrence(d.Rows), d.params(), grid, metal.Line(deltaScanRows*8/deltaScanSets))
}

// recurrence binds what the recurrence over so many tokens reads and writes.
func (d *PrefillDelta) recurrence(tokens int) []metal.Binding {
	state := int64(d.ValueHeads*d.ValueDim) * int64(d.KeyDim) * 4
	recurrent := d.Recurrent.inout(int64(d.Slots) * int64(d.Layers) * state)
	recurrent.Reads, recurrent.Writes = state, state
	step := d.Step.in(StepBytes)
	step.Reads = 8 // both slots
	n := int64(tokens)
	queries, keys, values, gates := d.parts()
	return []metal.Binding{queries.in(4 * n * int64(d.KeyHeads*d.KeyDim)), keys.in(4 * n * int64(d.KeyHeads*d.KeyDim)),
		values.inout(4 * n * int64(d.ValueHeads*d.ValueDim)), gates.in(8 * n * int64(d.ValueHeads)), recurrent, step}
}

// PrefillDeltaGate prepares the third dispatch of d: the gated norm.
func (s *Set) PrefillDeltaGate(d PrefillDelta) (*metal.Dispatch, error) {
	p, err := s.pipelineOf(&d, "prefill_delta_gate")
	if err != nil {
		return nil, err
	}
	_, _, values, _ := d.parts()
	n := int64(d.ValueHeads * d.ValueDim)
	grid := metal.Size{X: d.ValueHeads, Y: (d.Rows + deltaGateTokens - 1) / deltaGateTokens, Z: 1}
	return s.dispatch(p, []metal.Binding{values.in(4 * int64(d.Rows) * n), d.proj(n), d.Gain.in(4 * int64(d.ValueDim)),
		d.Out.out(2 * int64(d.Rows) * n)}, d.params(), grid, metal.Line(deltaGateTokens*metal.SimdWidth))
}
