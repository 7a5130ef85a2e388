//go:build wip

package gpu

// length is a route of attention: how the keys and values of a sequence are split among threadgroups. Which one computes
// a token depends on its position alone, so that bits don't depend on anything else.
type length struct {
	most   int // tokens of a sequence, the new one included
	splits int // 1: one threadgroup reads them all, and no merge follows
}

// lengthsFor are the routes for sequences of at most context tokens.
func lengthsFor(context int) []length {
	all := []length{{256, 1}, {1024, 8}, {4096, 32}, {16384, 64}, {65536, 128}, {1 << 30, 256}}
	for i := range all {
		if all[i].most >= context {
			all[i].most = max(context, 1)
			return all[:i+1]
		}
	}
	panic("BUG: a context beyond all routes")
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
