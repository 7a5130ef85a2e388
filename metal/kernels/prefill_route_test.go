package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

func TestRouteRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	device, set := newSet(t, exact)
	for _, tt := range []struct{ experts, topK, count int }{{256, 8, 5}, {512, 16, 3}, {16, 4, 130}, {331, 10, 2}, {1, 1, 4}, {16, 16, 1}, {40, 8, 7}} {
		for _, normalise := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d of %d for %d, normalised %v", tt.topK, tt.experts, tt.count, normalise), func(t *testing.T) {
				a := newArena(t, device, 1<<17, 31)
				width := tt.experts + 1
				logits := a.Normal(tt.count*width, 0, 2)
				row := func(i int) []float32 { return logits[i*width : (i+1)*width] }
				if tt.count > 3 { // ties, zeros of both signs, infinities, no numbers
					for i, l := range row(0) {
						row(0)[i] = float32(math.Round(float64(l)))
					}
					clear(row(1))
					row(1)[tt.experts/2] = float32(math.Copysign(0, -1))
					row(2)[tt.experts-1] = inf
					row(3)[0], row(3)[tt.experts/3] = nan, -nan
				}
				r := kernels.RouteRows{
					Logits: a.PutFloats(logits), Count: tt.count, Experts: tt.experts, TopK: tt.topK, Normalise: normalise,
					IDs: a.Room(int64(4 * tt.count * tt.topK)), Weights: a.Room(int64(4 * tt.count * (tt.topK + 1))),
				}
				op, err := set.RouteRows(r)
				runFixture(t, device, a, op, err)
				gotIDs, gotWeights := a.Uints(r.IDs, tt.count*tt.topK), a.Floats(r.Weights, tt.count*(tt.topK+1))
				for i := range tt.count {
					ids, weights := ref.Route(row(i)[:tt.experts], row(i)[tt.experts], tt.topK, normalise)
					if got := gotIDs[i*tt.topK : (i+1)*tt.topK]; !slices.Equal(got, ids) {
						t.Errorf("token %d: experts %v, want %v", i, got, ids)
					}
					if err := fixture.CompareFloats(gotWeights[i*(tt.topK+1):(i+1)*(tt.topK+1)], weights, 1e-5); err != nil {
						t.Errorf("token %d: weights: %v", i, err)
					}
				}
			})
		}
	}
}

// routings are ways to spread tokens over experts.
var routings = []struct {
	name  string
	slots func(a *fixture.Arena, experts, topK int) []uint32
}{
	{"at random", func(a *fixture.Arena, experts, topK int) []uint32 { return distinct(a, experts, topK) }},
	{"one takes all", func(a *fixture.Arena, experts, topK int) []uint32 {
		return append([]uint32{0}, add(distinct(a, experts-1, topK-1), 1)...)
	}},
	{"the last take all", func(a *fixture.Arena, experts, topK int) []uint32 {
		return add(distinct(a, topK, topK), uint32(experts-topK))
	}},
}

// distinct draws n different numbers below limit, in ascending order.
func distinct(a *fixture.Arena, limit, n int) []uint32 {
	var out []uint32
	for _, id := range a.Rand.Perm(limit)[:n] {
		out = append(out, uint32(id))
	}
	slices.Sort(out)
	return out
}

func add(list []uint32, n uint32) []uint32 {
	for i := range list {
		list[i] += n
	}
	return list
}

func TestGroupRows(t *testing.T) {
	device, set := newSet(t, exact)
	for _, tt := range []struct{ experts, topK, count, height int }{
		{256, 8, 70, 16}, {16, 4, 130, 32}, {512, 16, 40, 64}, {5, 2, 1, 16}, {3, 3, 2, 64}, {7, 1, 600, 32}, {1, 1, 65, 64},
	} {
		for _, r := range routings {
			t.Run(fmt.Sprintf("%d of %d for %d in %d, %s", tt.topK, tt.experts, tt.count, tt.height, r.name), func(t *testing.T) {
				a := newArena(t, device, 1<<17, 32)
				var ids []uint32
				for range tt.count {
					ids = append(ids, r.slots(a, tt.experts, tt.topK)...)
				}
				before := make([]uint32, tt.experts)
				for i := range before {
					before[i] = uint32(10 * i)
				}
				tileCount := kernels.TileCount(tt.count, tt.topK, tt.experts, tt.height)
				room := func() kernels.Ref { return a.Room(int64(4 * len(ids))) }
				g := kernels.GroupRows{
					IDs: a.PutUints(ids...), Experts: tt.experts, Places: room(), Loads: a.PutUints(before...),
					Grouped: kernels.Grouped{Count: tt.count, TopK: tt.topK, Height: tt.height, Tokens: room(), Tiles: a.Room(int64(16 * tileCount))},
				}
				op, err := set.GroupRows(g)
				runFixture(t, device, a, op, err)
				tokens, places, tiles, loads := ref.Group(ids, tt.topK, tt.experts, tt.height)
				if got := a.Uints(g.Grouped.Tokens, len(ids)); !slices.Equal(got, tokens) {
					t.Errorf("tokens %v, want %v", got, tokens)
				}
				if got := a.Uints(g.Places, len(ids)); !slices.Equal(got, places) {
					t.Errorf("places %v, want %v", got, places)
				}
				var words []uint32
				for _, tile := range tiles {
					words = append(words, tile.Expert, tile.First, tile.Rows, 0)
				}
				words = append(words, make([]uint32, max(0, 4*tileCount-len(words)))...)
				if got := a.Uints(g.Grouped.Tiles, 4*tileCount); !slices.Equal(got, words) {
					t.Errorf("tiles %v, want %v", got, words)
				}
				for i := range loads {
					loads[i] += before[i]
				}
				if got := a.Uints(g.Loads, tt.experts); !slices.Equal(got, loads) {
					t.Errorf("loads %v, want %v", got, loads)
				}
			})
		}
	}
}

func TestRouteRowsRefuses(t *testing.T) {
	_, set := newSet(t, exact)
	for _, tt := range []struct{ count, topK, experts int }{{0, 1, 4}, {1, 0, 4}, {1, 5, 4}, {1, 17, 64}, {1, 1, 513}} {
		if op, err := set.RouteRows(kernels.RouteRows{Count: tt.count, TopK: tt.topK, Experts: tt.experts}); err == nil {
			op.Close()
			t.Errorf("routed %+v, want an error", tt)
		}
		g := kernels.GroupRows{Experts: tt.experts, Grouped: kernels.Grouped{Count: tt.count, TopK: tt.topK, Height: 16}}
		if op, err := set.GroupRows(g); err == nil {
			op.Close()
			t.Errorf("grouped %+v, want an error", tt)
		}
	}
}
