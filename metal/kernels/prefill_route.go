package kernels

import (
	"fmt"

	"lilypad/metal"
)

// RouteRows chooses the experts of Count tokens as Route does that of one: softmax over all logits in fp32, the TopK largest
// with ties to the lowest id.
type RouteRows struct {
	Logits    Ref // f32 [Count][Experts+1]; the last is the logit of the shared expert's gate
	Count     int
	Experts   int  // at most MaxExperts
	TopK      int  // 1 to MaxTopK and Experts
	Normalise bool // weights add up to 1
	IDs       Ref  // u32 [Count][TopK], written in ascending order
	Weights   Ref  // f32 [Count][TopK+1], written: by slot, and last the sigmoid of the gate's logit
}

const chooseSimdgroups = 4 // CHOOSE_SIMDGROUPS of prefill_route.metal

// RouteRows prepares r. A logit that is no number makes all weights of its token NaN; the ids are valid whatever the logits.
func (s *Set) RouteRows(r RouteRows) (*metal.Dispatch, error) {
	if err := checkRoute(r.Count, r.TopK, r.Experts); err != nil {
		return nil, err
	}
	p, err := s.pipeline("prefill_route", "choose_experts", routeConstants(r.TopK, r.Experts, r.Normalise)...)
	if err != nil {
		return nil, err
	}
	n, k := int64(r.Count), int64(r.TopK)
	buffers := []metal.Binding{r.Logits.in(4 * n * int64(r.Experts+1)), r.IDs.out(4 * n * k), r.Weights.out(4 * n * (k + 1))}
	return s.dispatch(p, buffers, uint32(r.Count), metal.Line((r.Count+chooseSimdgroups-1)/chooseSimdgroups), metal.Line(32*chooseSimdgroups))
}

// GroupRows orders the rows of all experts (Grouped), without a word from the CPU. Everything it writes depends on IDs only.
type GroupRows struct {
	IDs     Ref // u32 [Count][TopK], those of a token distinct
	Experts int
	Grouped Grouped // written
	Places  Ref     // u32 [Count][TopK], written: the row of each pair
	Loads   Ref     // u32 [Experts]: rows so far of each expert, added to
}

const gatherThreads = 512 // GATHER_THREADS of prefill_route.metal

// GroupRows prepares g.
func (s *Set) GroupRows(g GroupRows) (*metal.Dispatch, error) {
	count, k := g.Grouped.Count, g.Grouped.TopK
	if err := checkRoute(count, k, g.Experts); err != nil {
		return nil, err
	}
	p, err := s.pipeline("prefill_route", "group_rows", routeConstants(k, g.Experts, false)...)
	if err != nil {
		return nil, err
	}
	pairs := 4 * int64(count) * int64(k)
	tiles := TileCount(count, k, g.Experts, g.Grouped.Height)
	buffers := []metal.Binding{g.IDs.in(pairs), g.Grouped.Tokens.out(pairs), g.Places.out(pairs), g.Grouped.Tiles.out(16 * int64(tiles)),
		g.Loads.inout(4 * int64(g.Experts))}
	params := struct{ Pairs, Height, Tiles uint32 }{uint32(count * k), uint32(g.Grouped.Height), uint32(tiles)}
	return s.dispatch(p, buffers, params, metal.Line(g.Experts), metal.Line(gatherThreads))
}

func checkRoute(count, topK, experts int) error {
	if count < 1 || experts < 1 || experts > MaxExperts || topK < 1 || topK > min(MaxTopK, experts) {
		return fmt.Errorf("routing %d tokens to %d of %d experts: want at most %d of %d", count, topK, experts, MaxTopK, MaxExperts)
	}
	return nil
}

func routeConstants(topK, experts int, normalise bool) []metal.Constant {
	return []metal.Constant{metal.Uint(0, uint32(experts)), metal.Uint(1, uint32(topK)), metal.Bool(2, normalise)}
}
