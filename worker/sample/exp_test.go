package sample

import (
	"math"
	"testing"
)

// TestExp walks through the range that weights have in steps of about 2,000 numbers.
func TestExp(t *testing.T) {
	worst, at := 0.0, float32(0)
	for b := math.Float32bits(-1e-9); b <= math.Float32bits(lowest); b += 2011 {
		x := math.Float32frombits(b)
		want := math.Exp(float64(x))
		_, e := math.Frexp(want)
		if got := math.Abs(float64(exp(x))-want) / math.Ldexp(1, e-24); got > worst {
			worst, at = got, x
		}
	}
	t.Logf("at most %.3f units in the last place", worst)
	if worst > 1 {
		t.Errorf("exp(%v) is %.3f units in the last place off", at, worst)
	}
	inf := float32(math.Inf(1))
	for _, tt := range []struct{ x, want float32 }{{0, 1}, {float32(math.Copysign(0, -1)), 1}, {-1e-30, 1}, {-87.1, 0}, {-inf, 0}} {
		if got := exp(tt.x); got != tt.want {
			t.Errorf("exp(%v) is %v, want %v", tt.x, got, tt.want)
		}
	}
}

// TestExpMonotone: a smaller logit never weighs more, so that weights descend in order of preference.
func TestExpMonotone(t *testing.T) {
	last := float32(1)
	for b := math.Float32bits(-1e-4); b <= math.Float32bits(negligible); b += 7 {
		x := math.Float32frombits(b)
		w := exp(x)
		if w > last {
			t.Fatalf("exp(%v) is %v, above %v of a larger number", x, w, last)
		}
		last = w
	}
}
