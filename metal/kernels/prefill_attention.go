package kernels

import (
	"fmt"

	"lilypad/metal"
)

// PrefillAttention attends with the queries of a chunk of tokens, the first at the step's position, to all tokens up to
// their own, whose keys and values are in the cache, and applies the output gate. Weights are rounded to bf16, which
// moves an output by at most 2^-9 of the sum of the weighted magnitudes of its values. A token's bits don't depend on
// where chunks are cut.
type PrefillAttention struct {
	AttentionShape
	Rows      int  // tokens, at most 4,096
	Queries   Ref  // bf16 of PrefillAttentionPrep, PrefillQueriesBytes, at a multiple of 16 bytes
	Proj      Ref  // [Rows][Width] of ProjType, everything that the layer projects
	ProjType  Type // BF16 or F32
	Width     int
	Q         int // elements from a row's start to [Heads][query, gate][HeadDim], of which the gates are read
	KV        Ref // the cache, at a multiple of 16 bytes
	Table     Ref // u32 block ids: those of the sequence begin at entry Step.table
	Step      Ref // Step, for its position and table
	MaxLength int // tokens of the sequence with the chunk: a count of bytes read, not a check
	Out       Ref // f16 [Rows][Heads][HeadDim]
}

type prefillAttentionParams struct{ KVHeads, Layer, Layers, Rows, Tiles, Width, Gate uint32 }

func (a *PrefillAttention) check() error {
	if err := a.checkPrefill(a.Rows, a.Width, a.MaxLength, a.Proj, a.ProjType); err != nil {
		return err
	}
	switch {
	case a.Q < 0 || a.Q+2*a.Heads*a.HeadDim > a.Width:
		return fmt.Errorf("queries at element %d: not within %d", a.Q, a.Width)
	case a.KV.Offset%16 != 0 || a.Queries.Offset%16 != 0:
		return fmt.Errorf("cache at byte %d, queries at %d: want multiples of 16", a.KV.Offset, a.Queries.Offset)
	}
	return nil
}

// PrefillAttention prepares a.
func (s *Set) PrefillAttention(a PrefillAttention) (*metal.Dispatch, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("attention of a chunk: %w", err)
	}
	p, err := s.pipeline("prefill_attention", "prefill_attention", metal.Uint(0, uint32(a.HeadDim)),
		metal.Uint(1, uint32(a.Heads/a.KVHeads)), metal.Bool(2, a.ProjType == F32))
	if err != nil {
		return nil, err
	}
	rows, n, size := int64(a.Rows), int64(a.Heads*a.HeadDim), int64(a.ProjType.Bytes())
	kv, table, step := a.KV.in(a.cacheBytes()), a.Table.in(4*int64(a.Entries)), a.Step.in(StepBytes)
	kv.Reads = int64(a.MaxLength) * a.tokenBytes()
	table.Reads = int64((a.MaxLength+blockTokens-1)/blockTokens) * 4
	step.Reads = 8 // position and table
	proj := a.Proj.in(size * rows * int64(a.Width))
	proj.Reads = size * rows * n
	groups := 8 // simdgroups, of which each owns a multiple of 8 dims
	if a.HeadDim == 32 {
		groups = 4
	}
	tiles := a.prefillTiles(a.Rows)
	params := prefillAttentionParams{uint32(a.KVHeads), uint32(a.Layer), uint32(a.Layers), uint32(a.Rows), uint32(tiles), uint32(a.Width),
		uint32(a.Q + a.HeadDim)}
	return s.dispatch(p, []metal.Binding{a.Queries.in(a.PrefillQueriesBytes(a.Rows)), kv, table, step, proj, a.Out.out(2 * rows * n)},
		params, metal.Size{X: a.KVHeads, Y: tiles, Z: 1}, metal.Line(groups*metal.SimdWidth))
}
