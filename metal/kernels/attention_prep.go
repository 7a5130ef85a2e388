package kernels

import (
	"fmt"
	"math"

	"lilypad/metal"
)

const blockTokens = 64 // of a block of the key-value cache

// AttentionShape is the shape of a gated attention layer and of the key-value cache.
type AttentionShape struct {
	Heads, KVHeads int // query head h reads KV head h/(Heads/KVHeads)
	HeadDim        int // 32, 64, 128 or 256
	Rotary         int // leading dims that RoPE turns, even
	Layer          int // among the Layers attention layers
	Layers         int
	Blocks         int // of the cache: bf16 [Blocks][Layers][keys, values][KVHeads][64 tokens][HeadDim]
	Entries        int // of the block table, that of all sequences; 0: as many as its buffer holds
}

func (a AttentionShape) check() error {
	switch a.HeadDim {
	case 32, 64, 128, 256:
	default:
		return fmt.Errorf("heads of %d dims: want 32, 64, 128 or 256", a.HeadDim)
	}
	switch {
	case a.KVHeads < 1 || a.Heads < 1 || a.Heads%a.KVHeads != 0:
		return fmt.Errorf("%d query heads for %d KV heads: want a multiple", a.Heads, a.KVHeads)
	case a.Heads/a.KVHeads > mostPer:
		return fmt.Errorf("%d query heads for each KV head: at most %d", a.Heads/a.KVHeads, mostPer)
	case a.Rotary < 0 || a.Rotary > a.HeadDim || a.Rotary%2 != 0:
		return fmt.Errorf("RoPE over %d of %d dims: want an even number within", a.Rotary, a.HeadDim)
	case a.Layer < 0 || a.Layer >= a.Layers || a.Blocks < 1 || a.Entries < 0:
		return fmt.Errorf("layer %d of %d in %d blocks with %d table entries: no such place", a.Layer, a.Layers, a.Blocks, a.Entries)
	}
	return nil
}

// cacheBytes is the size of the key-value cache, tokenBytes that of one token's keys and values in one layer.
func (a AttentionShape) cacheBytes() int64 {
	return int64(a.Blocks) * int64(a.Layers) * blockTokens * a.tokenBytes()
}
func (a AttentionShape) tokenBytes() int64 { return 4 * int64(a.KVHeads) * int64(a.HeadDim) }

// AttentionPrep norms and turns a token's queries and keys, and puts keys and values into the cache at the step's
// position, which must be below that of the tables.
type AttentionPrep struct {
	AttentionShape
	Proj         Ref // f32, everything that the layer projects
	Q            int // elements from Proj to [Heads][query, gate][HeadDim]
	K, V         int // to [KVHeads][HeadDim] each
	QGain, KGain Ref // f32 [HeadDim], the 1 added
	Eps          float32
	Coarse, Fine Ref // RopeTables, at multiples of 8 bytes
	Positions    int // of RopeTables; 0: as many as the buffer of Coarse holds
	KV           Ref // the cache
	Table        Ref // u32 block ids: those of the sequence begin at entry Step.table
	Step         Ref
	Out          Ref // f32 [Heads][HeadDim]: the queries, times HeadDim^-1/2
}

type prepParams struct {
	Heads, KVHeads, Layer, Layers, Q, K, V uint32
	Eps, Scale                             float32
}

// AttentionPrep prepares a.
func (s *Set) AttentionPrep(a AttentionPrep) (*metal.Dispatch, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("preparing attention: %w", err)
	}
	if min(a.Positions, a.Q, a.K, a.V) < 0 || a.Coarse.Offset%8 != 0 || a.Fine.Offset%8 != 0 {
		return nil, fmt.Errorf("preparing attention: %d positions, projections at elements %d, %d and %d, tables at bytes %d and %d: want none below 0, and multiples of 8",
			a.Positions, a.Q, a.K, a.V, a.Coarse.Offset, a.Fine.Offset)
	}
	p, err := s.pipeline("attention_prep", "attention_prep", metal.Uint(0, uint32(a.HeadDim)), metal.Uint(1, uint32(a.Rotary/2)))
	if err != nil {
		return nil, err
	}
	queries, keys := int64(a.Heads*a.HeadDim), int64(a.KVHeads*a.HeadDim)
	proj := a.Proj.in(4 * max(int64(a.Q)+2*queries-int64(a.HeadDim), int64(a.K)+keys, int64(a.V)+keys))
	proj.Reads = 4 * (queries + 2*keys)
	gain := 4 * int64(a.HeadDim)
	turns := int64(a.Rotary * 4)                                                                           // bytes of a position's
	coarse, fine := a.Coarse.in((int64(a.Positions)+ropeFine-1)/ropeFine*turns), a.Fine.in(ropeFine*turns) // without RoPE neither is read
	coarse.Reads, fine.Reads = turns, turns
	table := a.Table.in(4 * int64(a.Entries))
	table.Reads = 4
	step := a.Step.in(StepBytes)
	step.Reads = 8 // position and table
	kv := a.KV.out(a.cacheBytes())
	kv.Writes = a.tokenBytes()
	params := prepParams{uint32(a.Heads), uint32(a.KVHeads), uint32(a.Layer), uint32(a.Layers), uint32(a.Q), uint32(a.K), uint32(a.V),
		a.Eps, float32(1 / math.Sqrt(float64(a.HeadDim)))}
	return s.dispatch(p, []metal.Binding{proj, a.QGain.in(gain), a.KGain.in(gain), coarse, fine, table, step, kv, a.Out.out(4 * queries)},
		params, metal.Line(a.Heads+2*a.KVHeads), metal.Line(metal.SimdWidth))
}
