package cpu

import (
	"math"
	"slices"
	"testing"
)

// ulps is the distance of a float32 from a float64 in units of the last place of the float32.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	unit := float64(math.Nextafter32(float32(math.Abs(float64(w))), float32(math.Inf(1)))) - math.Abs(float64(w))
	return math.Abs(float64(got)-want) / unit
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87); x < 88.7; x += 0.000731 {
		worst = max(worst, ulps(exp(x), math.Exp(float64(x))))
	}
	if worst > 0.6 {
		t.Errorf("exp is off by %.3f units of the last place, want at most 0.6", worst)
	}
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {float32(math.Inf(-1)), 0}, {float32(math.Inf(1)), float32(math.Inf(1))}, {89, float32(math.Inf(1))}, {1e30, float32(math.Inf(1))},
		{-1e30, 0}, {-104, 0}, {-100, float32(math.Exp(-100))}, {-103.9, float32(math.Exp(-103.9))},
	} {
		if got := exp(c.x); got != c.want {
			t.Errorf("exp(%g) is %g, want %g", c.x, got, c.want)
		}
	}
	if nan := exp(float32(math.NaN())); nan == nan {
		t.Errorf("exp(NaN) is %g", nan)
	}
}

func TestGates(t *testing.T) {
	for x := float32(-100); x < 100; x += 0.0137 {
		d := float64(x)
		for name, c := range map[string][2]float64{
			"sigmoid":  {float64(sigmoid(x)), 1 / (1 + math.Exp(-d))},
			"silu":     {float64(silu(x)), d / (1 + math.Exp(-d))},
			"softplus": {float64(softplus(x)), math.Max(d, 0) + math.Log1p(math.Exp(-math.Abs(d)))},
		} {
			if diff := math.Abs(c[0] - c[1]); !(diff <= 3e-7*math.Abs(c[1])+2e-36) {
				t.Fatalf("%s(%g) is %g, want %g", name, x, c[0], c[1])
			}
		}
	}
	for _, x := range []float32{1e30, -1e30} {
		if y := silu(x); y != max(x, 0) {
			t.Errorf("silu(%g) is %g", x, y)
		}
	}
}

func TestHalfFloat(t *testing.T) {
	for h := range 1 << 16 {
		exponent, mantissa := h>>10&31, float64(h&0x3ff)
		want := math.Ldexp(1+mantissa/1024, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(mantissa/1024, -14)
		case exponent == 31 && mantissa == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		if h&0x8000 != 0 {
			want = -want
		}
		got := halfFloat(uint16(h))
		if math.IsNaN(want) && got == got || !math.IsNaN(want) && (float64(got) != want || math.Signbit(float64(got)) != (h&0x8000 != 0)) {
			t.Fatalf("half %#04x is %g, want %g", h, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		probs   []float32
		k       int
		ids     []int32
		weights []float32
	}{
		{"largest first", []float32{0.1, 0.4, 0.2, 0.3}, 2, []int32{1, 3}, []float32{0.4, 0.3}},
		{"ties to the lowest id", []float32{0.2, 0.2, 0.2, 0.2, 0.2}, 3, []int32{0, 1, 2}, []float32{0.2, 0.2, 0.2}},
		{"tie at the edge", []float32{0.1, 0.3, 0.2, 0.2, 0.2}, 3, []int32{1, 2, 3}, []float32{0.3, 0.2, 0.2}},
		{"late winner", []float32{0.1, 0.1, 0.8}, 1, []int32{2}, []float32{0.8}},
		{"all", []float32{0.25, 0.5, 0.25}, 3, []int32{1, 0, 2}, []float32{0.5, 0.25, 0.25}},
		{"zeros", []float32{0, 0, 1, 0}, 2, []int32{2, 0}, []float32{1, 0}},
	} {
		ids, weights := make([]int32, c.k), make([]float32, c.k)
		choose(c.probs, ids, weights)
		if !slices.Equal(ids, c.ids) || !slices.Equal(weights, c.weights) {
			t.Errorf("%s: chose %v %v, want %v %v", c.name, ids, weights, c.ids, c.weights)
		}
		sortByID(ids, weights)
		if !slices.IsSorted(ids) || weights[0] != c.probs[ids[0]] {
			t.Errorf("%s: sorted %v %v", c.name, ids, weights)
		}
	}
}

func TestRotateKeepsTheRest(t *testing.T) {
	x := []float32{1, 2, 3, 4, 5, 6}
	rotate(x, []float32{1, 0}, []float32{0, 1}) // a quarter turn of dims 0 and 2, none of dims 1 and 3
	if want := []float32{-3, 2, 1, 4, 5, 6}; !slices.Equal(x, want) {
		t.Errorf("rotated to %v, want %v", x, want)
	}
}

// TestDeltaStepOfZeros gives zero, not NaN, for an all-zero key (model specification 9.7), and decays without writing.
func TestDeltaStepOfZeros(t *testing.T) {
	for _, n := range kernelSets() {
		k := make([]float32, 8)
		n.times(k, inverseRoot(n.dot(k, k)+l2Eps))
		state, o := []float32{8: 2, 39: 4}, make([]float32, 5)
		n.deltaStep(state, k, k, []float32{1, 2, 3, 4, 5}, o, 0.5, 1, 0)
		if state[8] != 1 || state[39] != 2 || slices.ContainsFunc(o, func(v float32) bool { return v != 0 }) {
			t.Errorf("%s: state %v, output %v", n.name, state, o)
		}
	}
}
