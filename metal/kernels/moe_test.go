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

func TestRoute(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	random := func(a *fixture.Arena, n int) []float32 { return a.Normal(n, 0, 2) }
	tests := []struct {
		name          string
		experts, topK int
		logits        func(a *fixture.Arena, n int) []float32
	}{
		{"35B", 256, 8, random},
		{"most", 512, 16, random},
		{"demo", 16, 4, random},
		{"odd count", 331, 10, random},
		{"one of many", 128, 1, random},
		{"one of one", 1, 1, random},
		{"all", 16, 16, random},
		{"ties everywhere", 300, 8, func(a *fixture.Arena, n int) []float32 { return make([]float32, n) }},
		{"ties at the border", 256, 8, func(a *fixture.Arena, n int) []float32 {
			l := random(a, n)
			for i := range l {
				l[i] = float32(math.Round(float64(l[i])))
			}
			return l
		}},
		{"zeros of both signs", 64, 4, func(a *fixture.Arena, n int) []float32 {
			l := slices.Repeat([]float32{-1}, n)
			l[9], l[40], l[41], l[60], l[63] = 0, float32(math.Copysign(0, -1)), 0, 0, 0
			return l
		}},
		{"one wins all", 256, 8, func(a *fixture.Arena, n int) []float32 {
			l := random(a, n)
			l[200] = 300
			return l
		}},
		{"minus infinity", 40, 8, func(a *fixture.Arena, n int) []float32 {
			l := slices.Repeat([]float32{-inf}, n)
			l[3], l[39] = 1, 2
			return l
		}},
		{"not a number", 256, 8, func(a *fixture.Arena, n int) []float32 {
			l := random(a, n)
			l[7], l[100] = nan, -nan
			return l
		}},
		{"no number at all", 20, 8, func(a *fixture.Arena, n int) []float32 { return slices.Repeat([]float32{nan}, n) }},
		{"infinity", 256, 8, func(a *fixture.Arena, n int) []float32 {
			l := random(a, n)
			l[255] = inf
			return l
		}},
	}
	device, set := newSet(t, exact)
	for _, tt := range tests {
		for _, normalise := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, normalised %v", tt.name, normalise), func(t *testing.T) {
				a := newArena(t, device, 1<<14, 3)
				logits := tt.logits(a, tt.experts)
				r := kernels.Route{
					Logits: a.PutFloats(logits), Shared: a.PutFloats([]float32{0.7}), Experts: tt.experts, TopK: tt.topK, Normalise: normalise,
					IDs: a.Room(int64(4 * tt.topK)), Weights: a.Room(int64(4*tt.topK + 4)),
				}
				op, err := set.Route(r)
				runFixture(t, device, a, op, err)
				ids, weights := ref.Route(logits, 0.7, tt.topK, normalise)
				if got := a.Uints(r.IDs, tt.topK); !slices.Equal(got, ids) {
					t.Errorf("experts %v, want %v", got, ids)
				}
				if err := fixture.CompareFloats(a.Floats(r.Weights, tt.topK+1), weights, 1e-5); err != nil {
					t.Errorf("weights: %v", err)
				}
			})
		}
	}
}

// moeShapes have all widths, group sizes and types that occur, and those that are not quantised.
var moeShapes = []struct {
	name string
	moeShape
	formats []kernels.Format
}{
	{"demo", moeShape{16, 4, 64, 256, 64, kernels.Format{Bits: 4, Group: 64}}, []kernels.Format{{Bits: 4, Group: 64}, {Bits: 8, Group: 64}, {Bits: 2, Group: 32}}},
	{"one slot", moeShape{3, 1, 128, 128, 384, kernels.Format{Bits: 8, Group: 64}}, []kernels.Format{{Bits: 4, Group: 128, Type: kernels.F32}, {Bits: 3, Group: 32}}},
	{"odd", moeShape{7, 5, 96, 160, 32, kernels.Format{}}, []kernels.Format{{Bits: 5, Group: 32}, {Type: kernels.BF16}, {Bits: 4, Group: 32, Type: kernels.F16}}},
	{"many slots", moeShape{20, 16, 32, 64, 64, kernels.Format{Bits: 6, Group: 64, Type: kernels.F16}}, []kernels.Format{{Bits: 6, Group: 32}, {Type: kernels.F32}}},
	{"wide", moeShape{4, 3, 544, 64, 1056, kernels.Format{Type: kernels.F32}}, []kernels.Format{{Bits: 4, Group: 32}, {Type: kernels.F16}}},
}

type moeShape struct {
	experts, topK, inner, cols int
	shared                     int // width of the shared expert
	sharedFormat               kernels.Format
}

// forEachMoE runs test with every shape and format.
func forEachMoE(t *testing.T, test func(t *testing.T, f kernels.Format, s moeShape)) {
	for _, s := range moeShapes {
		for _, f := range s.formats {
			t.Run(s.name+", "+f.String(), func(t *testing.T) { test(t, f, s.moeShape) })
		}
	}
}

// slotsOf chooses topK of the experts, the last one among them: its record is the farthest away.
func slotsOf(a *fixture.Arena, s moeShape) []uint32 {
	var ids []uint32
	for _, id := range a.Rand.Perm(s.experts - 1)[:s.topK-1] {
		ids = append(ids, uint32(id))
	}
	slices.Sort(ids)
	return append(ids, uint32(s.experts-1))
}

func pickMatrices(list []ref.Matrix, ids []uint32) []ref.Matrix {
	var out []ref.Matrix
	for _, id := range ids {
		out = append(out, list[id])
	}
	return out
}

func TestExpertsUp(t *testing.T) {
	device, set := newSet(t, exact)
	forEachMoE(t, func(t *testing.T, f kernels.Format, s moeShape) {
		a := newArena(t, device, 8<<20, 5)
		experts, gateUp, _ := a.Experts(f, s.experts, s.inner, s.cols)
		ids := slotsOf(a, s)
		x, squares := a.Normal(s.cols, 0, 3), a.Normal(s.cols/8, 70, 5)
		u := kernels.ExpertsUp{
			Experts: experts, TopK: s.topK, IDs: a.PutUints(ids...), X: a.PutVector(x),
			Norm: kernels.Norm{Squares: a.PutFloats(squares), Parts: len(squares), Eps: 1e-6}, Out: a.Room(int64(s.topK) * kernels.VectorBytes(s.inner)),
		}
		op, err := set.ExpertsUp(u)
		runFixture(t, device, a, op, err)
		want := ref.ExpertsUp(pickMatrices(gateUp, ids), x, ref.InverseRMS(squares, s.cols, 1e-6))
		for slot := range s.topK {
			got := a.Vector(u.Out.At(int64(slot)*kernels.VectorBytes(s.inner)), s.inner)
			if err := fixture.CompareFloats(got, want[slot*s.inner:][:s.inner], 1e-5); err != nil {
				t.Errorf("slot %d: %v", slot, err)
			}
		}
	})
}

func TestExpertsDown(t *testing.T) {
	device, set := newSet(t, exact)
	forEachMoE(t, func(t *testing.T, f kernels.Format, s moeShape) {
		a := newArena(t, device, 8<<20, 6)
		experts, _, down := a.Experts(f, s.experts, s.inner, s.cols)
		shared, sharedTwin := a.Matrix(s.sharedFormat, s.cols, s.shared)
		ids := slotsOf(a, s)
		x, sharedX, weights := a.Normal(s.topK*s.inner, 0, 1), a.Normal(s.shared, 0, 1), a.Normal(s.topK+1, 0.2, 0.1)
		h, gain := a.Normal(s.cols, 0, 1), a.Normal(s.cols, 1, 0.2)
		d := kernels.ExpertsDown{
			Experts: experts, TopK: s.topK, IDs: a.PutUints(ids...), Weights: a.PutFloats(weights), X: putVectors(a, x, s.inner),
			Shared: shared, SharedX: a.PutVector(sharedX),
			Residual: kernels.Residual{H: a.PutFloats(h), Gained: a.Room(kernels.VectorBytes(s.cols)), Squares: a.Room(int64(s.cols / 2)), Gain: a.PutFloats(gain)},
		}
		op, err := set.ExpertsDown(d)
		runFixture(t, device, a, op, err)
		want := ref.ExpertsDown(h, weights, pickMatrices(down, ids), x, sharedTwin, sharedX)
		compareResidual(t, a, d.Residual, want, gain)
	})
}

// putVectors stores vectors of n elements, each in lane order, one after the other.
func putVectors(a *fixture.Arena, v []float32, n int) kernels.Ref {
	whole := make([]float32, int(kernels.VectorBytes(n)/4)*(len(v)/n))
	for i := range whole {
		whole[i] = float32(math.NaN()) // in the room that is left over
	}
	for i, x := range v {
		whole[i/n*int(kernels.VectorBytes(n)/4)+kernels.LaneOrder(i%n)] = x
	}
	return a.PutFloats(whole)
}

// compareResidual compares the residual, its gained form and its squares with those of h.
func compareResidual(t *testing.T, a *fixture.Arena, r kernels.Residual, h, gain []float32) {
	t.Helper()
	if err := fixture.CompareFloats(a.Floats(r.H, len(h)), h, 1e-5); err != nil {
		t.Errorf("h: %v", err)
	}
	if err := fixture.CompareFloats(a.Vector(r.Gained, len(h)), ref.Gained(h, gain), 1e-5); err != nil {
		t.Errorf("gained: %v", err)
	}
	if err := fixture.CompareFloats(a.Floats(r.Squares, len(h)/8), ref.Squares(h), 1e-5); err != nil {
		t.Errorf("squares: %v", err)
	}
}

// TestExpertNaN: a NaN in one slot's vector reaches every output, so that nothing hides it from the sampler.
func TestExpertNaN(t *testing.T) {
	device, set, a := newFixture(t, 1<<20, 7)
	experts, _, _ := a.Experts(kernels.Format{Bits: 4, Group: 32}, 4, 64, 64)
	shared, _ := a.Matrix(kernels.Format{}, 64, 64)
	x := a.Normal(2*64, 0, 1)
	x[64] = float32(math.NaN())
	h := a.Normal(64, 0, 1)
	d := kernels.ExpertsDown{
		Experts: experts, TopK: 2, IDs: a.PutUints(1, 3), Weights: a.PutFloats([]float32{0.5, 0.5, 1}), X: putVectors(a, x, 64),
		Shared: shared, SharedX: a.PutVector(a.Normal(64, 0, 1)),
		Residual: kernels.Residual{H: a.PutFloats(h), Gained: a.Room(1024), Squares: a.Room(32), Gain: a.PutFloats(h)},
	}
	op, err := set.ExpertsDown(d)
	runFixture(t, device, a, op, err)
	for i, v := range a.Floats(d.Residual.H, 64) {
		if v == v {
			t.Fatalf("output %d is %v, want NaN", i, v)
		}
	}
}

func TestMoERefuses(t *testing.T) {
	_, set, a := newFixture(t, 1<<20, 8)
	good, _, _ := a.Experts(kernels.Format{Bits: 4, Group: 32}, 4, 64, 64)
	room := a.Room(1 << 12)
	with := func(change func(*kernels.Experts)) kernels.Experts {
		e := good
		change(&e)
		return e
	}
	tests := []struct {
		name    string
		experts kernels.Experts
		topK    int
	}{
		{"no slots", good, 0},
		{"more slots than experts", good, 5},
		{"records too close for 16-byte loads", with(func(e *kernels.Experts) { e.Stride += 8 }), 2},
		{"records all in one place", with(func(e *kernels.Experts) { e.Stride = 0 }), 2},
		{"up of another width", with(func(e *kernels.Experts) { e.GateUp.Rows = 64 }), 2},
		{"rows that are no multiple of 8", with(func(e *kernels.Experts) { e.GateUp.Cols, e.Down.Rows = 60, 60 }), 2},
		{"a width that doesn't exist", with(func(e *kernels.Experts) { e.Down.Bits = 7 }), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if op, err := set.ExpertsUp(kernels.ExpertsUp{Experts: tt.experts, TopK: tt.topK, IDs: room, X: room, Norm: kernels.Norm{Squares: room, Parts: 8}, Out: room}); err == nil {
				op.Close()
				t.Error("prepared, want an error")
			}
		})
	}
	for _, k := range []int{0, 17, 9} {
		if op, err := set.Route(kernels.Route{Experts: 8, TopK: k, Logits: room, Shared: room, IDs: room, Weights: room}); err == nil {
			op.Close()
			t.Errorf("routed to %d of 8 experts, want an error", k)
		}
	}
}
