package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
)

func TestEmbedRows(t *testing.T) {
	device, set := newSet(t, exact)
	for _, f := range denseFormats {
		t.Run(f.String(), func(t *testing.T) {
			a := newArena(t, device, 1<<20, 41)
			const rows, cols = 9, 320
			m, twin := a.Matrix(f, rows, cols)
			tokens := []uint32{5, 0, rows - 1}
			e := kernels.EmbedRows{W: m, IDs: a.PutUints(tokens...), Count: len(tokens), H: a.Room(4 * 3 * cols)}
			op, err := set.EmbedRows(e)
			runFixture(t, device, a, op, err)
			if err := fixture.CompareFloats(a.Floats(e.H, 3*cols), ref.Gather(twin.Data, cols, tokens), 1e-6); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEmbedRowsBeyond: a token that the table lacks reads nothing outside of it.
func TestEmbedRowsBeyond(t *testing.T) {
	device, set, a := newFixture(t, 1<<16, 42)
	m, twin := a.Matrix(kernels.Format{Bits: 4, Group: 32}, 4, 64)
	e := kernels.EmbedRows{W: m, IDs: a.PutUints(4), Count: 1, H: a.Room(4 * 64)}
	op, err := set.EmbedRows(e)
	runFixture(t, device, a, op, err)
	if err := fixture.CompareFloats(a.Floats(e.H, 64), twin.Row(3), 1e-6); err != nil {
		t.Error(err)
	}
}

var rowShapes = []struct{ count, cols int }{{1, 64}, {3, 2048}, {5, 1028}, {2, 4}}

func TestNormRows(t *testing.T) {
	device, set := newSet(t, exact)
	for _, s := range rowShapes {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			a := newArena(t, device, 1<<20, 43)
			h, gain := a.Normal(s.count*s.cols, 0.1, 3), a.Normal(s.cols, 1, 0.2)
			size := int64(s.count * s.cols)
			n := kernels.NormRows{H: a.PutFloats(h), Count: s.count, Cols: s.cols, Gain: a.PutFloats(gain), Eps: 1e-6, X: a.Room(2 * size)}
			want := ref.NormRows(h, gain, n.Eps)
			op, err := set.NormRows(n)
			runFixture(t, device, a, op, err)
			if err := fixture.CompareHalves(a.Halves(n.X, len(want)), want, 1, 1e-3); err != nil {
				t.Error(err)
			}
			exact := a.Room(4 * size)
			n.X, n.Exact = a.Room(2*size), &exact
			op, err = set.NormRows(n)
			runFixture(t, device, a, op, err)
			if err := fixture.CompareFloats(a.Floats(exact, len(want)), want, 1e-5); err != nil {
				t.Errorf("exact: %v", err)
			}
			if err := fixture.CompareHalves(a.Halves(n.X, len(want)), want, 1, 1e-3); err != nil {
				t.Errorf("beside exact: %v", err)
			}
		})
	}
}

func TestCombineRows(t *testing.T) {
	device, set := newSet(t, exact)
	for _, s := range rowShapes {
		for _, kind := range []kernels.Type{kernels.F16, kernels.F32} {
			for _, topK := range []int{1, 8} {
				t.Run(fmt.Sprintf("%v, %v, %d", s, kind, topK), func(t *testing.T) {
					a := newArena(t, device, 1<<20, 44)
					put := a.PutFloats
					if kind == kernels.F16 {
						put = a.PutHalves
					}
					size := s.count * s.cols
					h, gain := a.Normal(size, 0, 2), a.Normal(s.cols, 1, 0.2)
					experts, shared, weights := a.Normal(size*topK, 0, 1), a.Normal(size, 0, 1), a.Normal(s.count*(topK+1), 0.2, 0.1)
					places := distinct(a, s.count*topK, s.count*topK)
					a.Rand.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
					c := kernels.CombineRows{
						TopK: topK, Places: a.PutUints(places...), Weights: a.PutFloats(weights), Experts: put(experts), Shared: put(shared), Type: kind,
						Norm: kernels.NormRows{H: a.PutFloats(h), Count: s.count, Cols: s.cols, Gain: a.PutFloats(gain), Eps: 1e-6, X: a.Room(int64(2 * size))},
					}
					op, err := set.CombineRows(c)
					runFixture(t, device, a, op, err)
					want := ref.Combine(h, experts, places, weights, shared, topK, s.cols)
					if err := fixture.CompareFloats(a.Floats(c.Norm.H, size), want, 1e-5); err != nil {
						t.Errorf("h: %v", err)
					}
					if err := fixture.CompareHalves(a.Halves(c.Norm.X, size), ref.NormRows(want, gain, 1e-6), 1, 1e-3); err != nil {
						t.Errorf("x: %v", err)
					}
				})
			}
		}
	}
}

// TestNormRowsSaturates: what a half can't hold becomes the largest one, and what is no number stays none.
func TestNormRowsSaturates(t *testing.T) {
	device, set, a := newFixture(t, 1<<16, 45)
	nan := float32(math.NaN())
	h, gain := []float32{1, -1, 1, -1, nan, 1, 1, 1}, []float32{65504, 1e6, 1e30, 2}
	n := kernels.NormRows{H: a.PutFloats(h), Count: 2, Cols: 4, Gain: a.PutFloats(gain), X: a.Room(16)}
	op, err := set.NormRows(n)
	runFixture(t, device, a, op, err)
	want := []float32{65504, -65504, 65504, -2, nan, nan, nan, nan}
	if err := fixture.CompareHalves(a.Halves(n.X, 8), want, 1, 0); err != nil {
		t.Error(err)
	}
}
