package kernels

import (
	"fmt"
	"math"

	"lilypad/metal"
)

// Limits of prefill_attention_prep.metal and prefill_attention.metal.
const (
	prefillTile       = 64   // TILE, ROWS
	prefillPrepTokens = 8    // TOKENS
	mostPrefill       = 4096 // tokens of a chunk
)

// PrefillAttentionPrep is AttentionPrep for a chunk of tokens, the first at the step's position: it norms and turns their
// queries and keys, and puts keys and values into the cache.
type PrefillAttentionPrep struct {
	AttentionShape
	Rows         int  // tokens, at most 4,096
	Proj         Ref  // [Rows][Width] of ProjType, everything that the layer projects
	ProjType     Type // BF16 or F32
	Width        int
	Q            int // elements from a row's start to [Heads][query, gate][HeadDim]
	K, V         int // to [KVHeads][HeadDim] each
	QGain, KGain Ref // f32 [HeadDim], the 1 added
	Eps          float32
	Coarse, Fine Ref // RopeTables, at multiples of 8 bytes
	Positions    int // of RopeTables; 0: as many as the buffer of Coarse holds
	KV           Ref // the cache
	Table        Ref // u32 block ids: those of the sequence begin at entry Step.table
	Step         Ref // Step, for its position and table
	MaxLength    int // tokens of the sequence with the chunk: a count of bytes read, not a check
	Out          Ref // bf16, PrefillQueriesBytes: the queries, times HeadDim^-1/2, as PrefillAttention reads them
}

type prefillPrepParams struct {
	Rows, Heads, KVHeads, Layer, Layers, Width, Q, K, V uint32
	Eps, Scale                                          float32
}

// prefillTiles is how many tiles of rows the queries of a KV head make.
func (a AttentionShape) prefillTiles(rows int) int {
	return (rows*(a.Heads/a.KVHeads) + prefillTile - 1) / prefillTile
}

// PrefillQueriesBytes is the size of the queries of rows tokens: bf16 [KVHeads][tiles of 64][8x8 tiles of (query, dim)],
// where query t*r+g is head g of token t, of r = Heads/KVHeads.
func (a AttentionShape) PrefillQueriesBytes(rows int) int64 {
	return 2 * int64(a.KVHeads) * int64(a.prefillTiles(rows)) * prefillTile * int64(a.HeadDim)
}

// checkPrefill checks what both dispatches of a chunk share.
func (a AttentionShape) checkPrefill(rows, width, maxLength int, proj Ref, kind Type) error {
	switch {
	case rows < 1 || rows > mostPrefill:
		return fmt.Errorf("a chunk of %d tokens: want 1 to %d", rows, mostPrefill)
	case kind != BF16 && kind != F32:
		return fmt.Errorf("projections of type %d: want bf16 or f32", kind)
	case proj.Offset%int64(kind.Bytes()) != 0:
		return fmt.Errorf("projections at byte %d: want a multiple of %d", proj.Offset, kind.Bytes())
	case width < 1:
		return fmt.Errorf("projections %d wide", width)
	case maxLength < rows || maxLength > a.Blocks*blockTokens:
		return fmt.Errorf("%d tokens, with a chunk of %d, in a cache of %d", maxLength, rows, a.Blocks*blockTokens)
	}
	return a.check()
}

func (a *PrefillAttentionPrep) check() error {
	if err := a.checkPrefill(a.Rows, a.Width, a.MaxLength, a.Proj, a.ProjType); err != nil {
		return err
	}
	queries, keys := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	switch {
	case min(a.Q, a.K, a.V) < 0 || max(a.Q+2*queries, a.K+keys, a.V+keys) > a.Width:
		return fmt.Errorf("queries, keys and values at elements %d, %d and %d: not within %d", a.Q, a.K, a.V, a.Width)
	case a.Positions < 0 || a.Coarse.Offset%8 != 0 || a.Fine.Offset%8 != 0:
		return fmt.Errorf("tables of %d positions at bytes %d and %d: want none below 0, and multiples of 8", a.Positions, a.Coarse.Offset, a.Fine.Offset)
	}
	return nil
}

// spans is how many stretches of n positions the chunk touches.
func (a *PrefillAttentionPrep) spans(n int) int64 {
	return int64((a.MaxLength-1)/n - (a.MaxLength-a.Rows)/n + 1)
}

// PrefillAttentionPrep prepares a.
func (s *Set) PrefillAttentionPrep(a PrefillAttentionPrep) (*metal.Dispatch, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("preparing attention of a chunk: %w", err)
	}
	p, err := s.pipeline("prefill_attention_prep", "prefill_attention_prep", metal.Uint(0, uint32(a.HeadDim)),
		metal.Uint(1, uint32(a.Rotary/2)), metal.Bool(2, a.ProjType == F32))
	if err != nil {
		return nil, err
	}
	rows, queries, keys := int64(a.Rows), int64(a.Heads*a.HeadDim), int64(a.KVHeads*a.HeadDim)
	size := int64(a.ProjType.Bytes())
	proj := a.Proj.in(size * rows * int64(a.Width))
	proj.Reads = size * rows * (queries + 2*keys)
	gain := 4 * int64(a.HeadDim)
	turns := int64(a.Rotary * 4)                                                                           // bytes of a position's
	coarse, fine := a.Coarse.in((int64(a.Positions)+ropeFine-1)/ropeFine*turns), a.Fine.in(ropeFine*turns) // without RoPE neither is read
	coarse.Reads, fine.Reads = a.spans(ropeFine)*turns, min(rows, ropeFine)*turns
	table := a.Table.in(4 * int64(a.Entries))
	table.Reads = 4 * a.spans(blockTokens)
	step := a.Step.in(StepBytes)
	step.Reads = 8 // position and table
	kv := a.KV.out(a.cacheBytes())
	kv.Writes = rows * a.tokenBytes()
	params := prefillPrepParams{uint32(a.Rows), uint32(a.Heads), uint32(a.KVHeads), uint32(a.Layer), uint32(a.Layers), uint32(a.Width),
		uint32(a.Q), uint32(a.K), uint32(a.V), a.Eps, float32(1 / math.Sqrt(float64(a.HeadDim)))}
	per := a.Heads / a.KVHeads
	padded := (a.prefillTiles(a.Rows)*prefillTile + per - 1) / per // tokens, with those of the last tile that don't exist
	grid := metal.Size{X: a.Heads + 2*a.KVHeads, Y: (padded + prefillPrepTokens - 1) / prefillPrepTokens, Z: 1}
	return s.dispatch(p, []metal.Binding{proj, a.QGain.in(gain), a.KGain.in(gain), coarse, fine, table, step, kv,
		a.Out.out(a.PrefillQueriesBytes(a.Rows))}, params, grid, metal.Line(prefillPrepTokens*metal.SimdWidth))
}
