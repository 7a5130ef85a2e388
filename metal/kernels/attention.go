package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Limits of attention.metal.
const (
	setHeads    = 4 // WIDEST: query heads of a simdgroup
	splitGroups = 8 // simdgroups of a threadgroup of attention_split
	mostPer     = setHeads * splitGroups
	shortGroups = 16 // of attention_short
	rangeGrain  = 16 // GRAIN: tokens that a range is a multiple of
	mergers     = 8  // MERGERS
	mostSplits  = 256
)

// Attention attends with the queries of one token to all tokens up to its own, the step's position, and applies the output
// gate. With Splits above 1 it yields Partials instead, which AttentionMerge turns into Out.
type Attention struct {
	AttentionShape
	Queries   Ref // f32 [Heads][HeadDim], scaled, at a multiple of 16 bytes
	Proj      Ref // f32, everything that the layer projects
	Q         int // elements from Proj to [Heads][query, gate][HeadDim], of which the gates are read
	KV        Ref // the cache, at a multiple of 16 bytes
	Table     Ref // u32 block ids: those of the sequence begin at entry Step.table
	Step      Ref
	Out       Ref // f32 [Heads][HeadDim] in lane order
	Splits    int // AttentionSplits: 1 for one dispatch
	MaxLength int // the most tokens that the step may reach, its own included: a count of bytes read, not a check
	Partials  Ref // PartialBytes, at a multiple of 8 bytes, where Splits is above 1
}

type attentionParams struct{ KVHeads, Layer, Layers, Splits, Gate uint32 }

// AttentionSplits is how many ranges the tokens of a sequence of up to maxLength tokens should be split into, on a GPU of
// cores (0: unknown). The sums of a position depend on it, so it must be chosen by the position alone.
func AttentionSplits(a AttentionShape, maxLength, cores int) int {
	if cores == 0 {
		cores = 32
	}
	const short = 256 // tokens up to which one threadgroup for each head beats two dispatches
	if maxLength <= short {
		return 1
	}
	// A threadgroup for each core: its registers leave room for hardly more, and each range costs partial sums.
	return max(2, min(cores/a.KVHeads, maxLength/rangeGrain, mostSplits))
}

// PartialBytes is the size of the partials of splits ranges.
func (a AttentionShape) PartialBytes(splits int) int64 {
	return a.sumBytes(splits) + 8*int64(a.Heads)*int64(splits)
}

func (a AttentionShape) sumBytes(splits int) int64 {
	return 4 * int64(a.Heads) * int64(splits) * int64(a.HeadDim)
}

func (a *Attention) check() error {
	switch {
	case a.Splits < 1 || a.Splits > mostSplits:
		return fmt.Errorf("%d splits: want 1 to %d", a.Splits, mostSplits)
	case a.MaxLength < 1 || a.MaxLength > a.Blocks*blockTokens:
		return fmt.Errorf("%d tokens in a cache of %d", a.MaxLength, a.Blocks*blockTokens)
	case a.Queries.Offset%16 != 0 || a.KV.Offset%16 != 0 || a.Partials.Offset%8 != 0:
		return fmt.Errorf("queries at byte %d, cache at %d, partials at %d: want multiples of 16, 16 and 8",
			a.Queries.Offset, a.KV.Offset, a.Partials.Offset)
	case a.Q < 0:
		return fmt.Errorf("queries at element %d", a.Q)
	}
	return a.AttentionShape.check()
}

// ranges is how many of the splits hold tokens at a length: range_of in attention.metal.
func (a *Attention) ranges(length int) int {
	each := (length + a.Splits - 1) / a.Splits
	each = (each + rangeGrain - 1) / rangeGrain * rangeGrain
	return (length + each - 1) / each
}

func (a *Attention) params() attentionParams {
	return attentionParams{uint32(a.KVHeads), uint32(a.Layer), uint32(a.Layers), uint32(a.Splits), uint32(a.Q + a.HeadDim)}
}

// gate and sums bind the gates in the projections, and the partials: sums over values, tops and sums of weights.
func (a *Attention) gate() metal.Binding {
	n := int64(a.Heads * a.HeadDim)
	b := a.Proj.in(4 * (int64(a.Q) + 2*n))
	b.Reads = 4 * n
	return b
}

func (a *Attention) sums() (acc, run metal.Binding) {
	used := int64(a.Heads * a.ranges(a.MaxLength))
	n := a.sumBytes(a.Splits)
	acc, run = a.Partials.out(n), a.Partials.At(n).out(8*int64(a.Heads*a.Splits))
	acc.Writes, run.Writes = used*int64(4*a.HeadDim), used*8
	return acc, run
}

// Attention prepares a.
func (s *Set) Attention(a Attention) (*metal.Dispatch, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	per := a.Heads / a.KVHeads
	name, sets, groups := "attention_short", 1, shortGroups
	if a.Splits > 1 {
		name, sets, groups = "attention_split", (per+setHeads-1)/setHeads, splitGroups
	}
	shares := groups / sets
	p, err := s.pipeline("attention", name, metal.Uint(0, uint32(a.HeadDim)), metal.Uint(1, uint32(per)), metal.Uint(2, uint32(sets)),
		metal.Uint(3, uint32(shares)))
	if err != nil {
		return nil, err
	}
	kv, table, step := a.KV.in(a.cacheBytes()), a.Table.in(4*int64(a.Entries)), a.Step.in(StepBytes)
	kv.Reads = int64(a.MaxLength) * a.tokenBytes()
	table.Reads = int64((a.MaxLength+blockTokens-1)/blockTokens) * 4
	step.Reads = 8 // position and table
	buffers := []metal.Binding{a.Queries.in(int64(4 * a.Heads * a.HeadDim)), kv, table, step}
	grid := metal.Line(a.Heads)
	if a.Splits > 1 {
		acc, run := a.sums()
		buffers = append(buffers, acc, run)
		grid = metal.Size{X: a.Splits, Y: a.KVHeads, Z: 1}
	} else {
		buffers = append(buffers, a.gate(), a.Out.vectors(metal.Out, 1, a.Heads*a.HeadDim))
	}
	return s.dispatch(p, buffers, a.params(), grid, metal.Line(sets*shares*metal.SimdWidth))
}

// AttentionMerge prepares the second dispatch of an Attention with Splits above 1.
func (s *Set) AttentionMerge(a Attention) (*metal.Dispatch, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("merging attention: %w", err)
	}
	p, err := s.pipeline("attention", "attention_merge", metal.Uint(0, uint32(a.HeadDim)), metal.Uint(1, 1), metal.Uint(2, 1), metal.Uint(3, 1))
	if err != nil {
		return nil, err
	}
	acc, run := a.sums()
	for _, b := range []*metal.Binding{&acc, &run} {
		b.Access, b.Reads, b.Writes = metal.In, b.Writes, 0
	}
	step := a.Step.in(StepBytes)
	step.Reads = 4 // position
	out := a.Out.vectors(metal.Out, 1, a.Heads*a.HeadDim)
	return s.dispatch(p, []metal.Binding{acc, run, step, a.gate(), out}, a.params(),
		metal.Size{X: a.HeadDim / metal.SimdWidth, Y: a.Heads, Z: 1}, metal.Line(mergers*metal.SimdWidth))
}
