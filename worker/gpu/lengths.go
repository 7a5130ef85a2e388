package gpu

import (
	"math"

	"lilypad/metal/kernels"
)

// length is a route of attention: how the keys and values of a sequence are split among threadgroups. Which one computes
// a token depends on its position alone, so that bits don't depend on anything else.
type length struct {
	most   int // tokens of a sequence, the new one included
	splits int // 1: one threadgroup reads them all, and no merge follows
}

// attentionShape is that of every attention layer; Layer and Blocks are left open.
func (m *Model) attentionShape() kernels.AttentionShape {
	s := m.shape
	return kernels.AttentionShape{Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Rotary: s.Rotary, Layers: m.attnLayers}
}

// newLengths makes the routes for sequences of at most context tokens.
func (m *Model) newLengths(context int) []length {
	var all []length
	for _, most := range []int{512, 2048, 8192, 32768, 131072, math.MaxInt} {
		most = min(most, context)
		all = append(all, length{most, kernels.AttentionSplits(m.attentionShape(), most, m.device.Info().Cores)})
		if most == context {
			break
		}
	}
	return all
}

// route is the first that is long enough for a token at position.
func (m *Model) route(position int) int {
	for i, l := range m.lengths {
		if position < l.most {
			return i
		}
	}
	panic("BUG: a position beyond the context")
}
