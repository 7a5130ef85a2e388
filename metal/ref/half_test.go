package ref

import (
	"math"
	"testing"
)

// TestHalfBits: every half-precision number keeps its bits, and so do floats around the middle between it and the next.
func TestHalfBits(t *testing.T) {
	for u := range uint16(0x7bff) {
		low, high := Half(u), Half(u+1)
		middle := low/2 + high/2
		even := u + u&1
		for x, want := range map[float32]uint16{
			low: u, -low: u | 0x8000, middle: even, -middle: even | 0x8000,
			math.Nextafter32(middle, 0): u, math.Nextafter32(middle, 1e9): u + 1,
		} {
			if x == 0 && u == 0 {
				continue // which of two zeros it is, a map can't tell
			}
			if got := HalfBits(x); got != want {
				t.Fatalf("%g becomes %#x, want %#x", x, got, want)
			}
		}
	}
	for x, want := range map[float32]uint16{65519: 0x7bff, -65536: 0xfbff, float32(math.Inf(1)): 0x7bff, 0: 0, 0x1p-26: 0} {
		if got := HalfBits(x); got != want {
			t.Errorf("%g becomes %#x, want %#x", x, got, want)
		}
	}
	if x := RoundHalf(float32(math.NaN())); x == x {
		t.Errorf("a NaN becomes %g", x)
	}
}
