package checkpoint

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// half is the value of IEEE half-precision bits by their definition.
func half(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10)&0x1F, float64(h&0x3FF)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func TestF16EveryValue(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		got, want := f16ToFloat(h), half(h)
		if math.IsNaN(want) {
			if got == got || !math.IsNaN(half(floatToF16(got))) {
				t.Errorf("%04x: %g is a number", h, got)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
			t.Errorf("%04x is %g, want %g", h, got, want)
		}
		if back := floatToF16(got); back != h {
			t.Errorf("%04x comes back as %04x", h, back)
		}
	}
}

// Rounding picks the nearest value, the one with an even last bit in the middle.
func TestRoundingToNearest(t *testing.T) {
	check := func(t *rapid.T, v float64, bits uint16, value func(uint16) float64) {
		for _, other := range []uint16{bits - 1, bits + 1} {
			o := value(other)
			if math.IsNaN(o) || math.IsInf(o, 0) || math.Signbit(o) != math.Signbit(v) {
				continue
			}
			mine, theirs := math.Abs(value(bits)-v), math.Abs(o-v)
			if theirs < mine || theirs == mine && bits&1 != 0 {
				t.Fatalf("%g became %g, and %g is nearer", v, value(bits), o)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if f != f || math.IsInf(float64(f), 0) {
			return
		}
		if b := floatToBF16(f); !math.IsInf(float64(bf16ToFloat(b)), 0) {
			check(t, float64(f), b, func(u uint16) float64 { return float64(bf16ToFloat(u)) })
		}
		small := float32(math.Mod(float64(f), 65504))
		if h := floatToF16(small); h&0x7C00 != 0x7C00 {
			check(t, float64(small), h, half)
		}
	})
	for _, c := range []struct {
		in   float32
		want uint16
	}{{65504, 0x7BFF}, {65519.996, 0x7BFF}, {65520, 0x7C00}, {-1e9, 0xFC00}, {0x1p-25, 0}, {0x1.8p-25, 1}, {0x1p-14, 0x0400}, {0x1.ffep-15, 0x0400}} {
		if got := floatToF16(c.in); got != c.want {
			t.Errorf("%g became %04x, want %04x", c.in, got, c.want)
		}
	}
}
