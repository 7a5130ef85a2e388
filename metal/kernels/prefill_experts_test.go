package kernels_test

import (
	"fmt"
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
)

// groupedCase is a chunk through the experts.
type groupedCase struct {
	experts, topK, inner, cols int
	format                     kernels.Format
	count, height, outputs     int  // outputs of a tile; 0: the route's own
	routing                    int  // of routings
	floats                     bool // to fp32 numbers, else f16
}

func TestExpertRowsFormats(t *testing.T) {
	device, set := newSet(t, sim.Options{Check: true})
	for _, f := range denseFormats {
		t.Run(f.String(), func(t *testing.T) {
			runExpertRows(t, device, set, groupedCase{experts: 3, topK: 2, inner: 64, cols: 128, format: f, count: 20, height: 32})
		})
	}
}

// TestExpertRowsTails has experts with no rows, with all, with as many as a tile has, one fewer and one more, and widths
// that are no multiple of a tile's.
func TestExpertRowsTails(t *testing.T) {
	device, set := newSet(t, sim.Options{Check: true})
	f := kernels.Format{Bits: 4, Group: 32}
	for _, height := range []int{16, 32, 64} {
		for _, count := range []int{1, 3, height - 1, height, height + 1} {
			for routing, r := range routings {
				t.Run(fmt.Sprintf("%d in %d, %s", count, height, r.name), func(t *testing.T) {
					c := groupedCase{experts: 5, topK: 2, inner: 96, cols: 96, format: f, count: count, height: height, routing: routing, floats: true}
					if height >= 64 && count%2 == 1 {
						c.outputs = 128
					}
					runExpertRows(t, device, set, c)
				})
			}
		}
	}
}

// TestExpertRowsTraffic: where every expert has a row, the kernels read and write just what the wrappers declare.
func TestExpertRowsTraffic(t *testing.T) {
	device, set := newSet(t, exact)
	runExpertRows(t, device, set, groupedCase{experts: 2, topK: 2, inner: 64, cols: 64, format: kernels.Format{Bits: 4, Group: 64, Type: kernels.F16}, count: 9, height: 16})
}

// runExpertRows runs group, up and down, and compares each with its twin fed what the kernel before it made.
func runExpertRows(t *testing.T, device *metal.Device, set *kernels.Set, c groupedCase) {
	t.Helper()
	a := newArena(t, device, 2<<20, 33)
	e, gateUp, down := a.Experts(c.format, c.experts, c.inner, c.cols)
	for i := range gateUp {
		gateUp[i], down[i] = gateUp[i].Rounded(), down[i].Rounded()
	}
	var ids []uint32
	for range c.count {
		ids = append(ids, routings[c.routing].slots(a, c.experts, c.topK)...)
	}
	x, pairs := a.Normal(c.count*c.cols, 0, 1), len(ids)
	tiles := kernels.TileCount(c.count, c.topK, c.experts, c.height)
	g := kernels.Grouped{Count: c.count, TopK: c.topK, Height: c.height, Tokens: a.Room(int64(4 * pairs)), Tiles: a.Room(int64(16 * tiles))}
	up := kernels.ExpertsUpRows{Experts: e, Grouped: g, X: a.PutHalves(x), Out: a.Room(int64(2 * pairs * c.inner))}
	kind := kernels.F16
	if c.floats {
		kind = kernels.F32
	}
	dn := kernels.ExpertsDownRows{Experts: e, Grouped: g, X: up.Out, Out: a.Room(int64(kind.Bytes() * pairs * c.cols)), OutType: kind}
	group, err := set.GroupRows(kernels.GroupRows{IDs: a.PutUints(ids...), Experts: c.experts, Grouped: g,
		Places: a.Room(int64(4 * pairs)), Loads: a.PutUints(make([]uint32, c.experts)...)})
	runFixture(t, device, a, group, err)
	prepareUp, prepareDown := set.ExpertsUpRows, set.ExpertsDownRows
	if c.outputs != 0 {
		prepareUp = func(u kernels.ExpertsUpRows) (*metal.Dispatch, error) { return set.ExpertsUpRowsBy(u, c.outputs) }
		prepareDown = func(d kernels.ExpertsDownRows) (*metal.Dispatch, error) { return set.ExpertsDownRowsBy(d, c.outputs) }
	}
	op, err := prepareUp(up)
	runFixture(t, device, a, op, err)
	op, err = prepareDown(dn)
	runFixture(t, device, a, op, err)

	tokens, _, _, loads := ref.Group(ids, c.topK, c.experts, c.height)
	want := ref.SwiGLURows(ref.ExpertRows(gateUp, loads, ref.Gather(x, c.cols, tokens)), 2*c.inner)
	between := a.Halves(up.Out, len(want))
	if err := fixture.CompareHalves(between, want, 1, 1e-2); err != nil {
		t.Errorf("up: %v", err)
	}
	want = ref.ExpertRows(down, loads, between)
	if c.floats {
		err = fixture.CompareFloats(a.Floats(dn.Out, len(want)), want, 1e-5)
	} else {
		err = fixture.CompareHalves(a.Halves(dn.Out, len(want)), want, 1, 1e-2)
	}
	if err != nil {
		t.Errorf("down: %v", err)
	}
}
