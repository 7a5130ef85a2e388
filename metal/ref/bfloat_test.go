package ref

import (
	"math"
	"testing"
)

func TestBfloat(t *testing.T) {
	tests := []struct {
		name string
		in   float32
		want uint16
	}{
		{"one", 1, 0x3f80},
		{"tie to the even one below", math.Float32frombits(0x3f808000), 0x3f80},
		{"tie to the even one above", math.Float32frombits(0x3f818000), 0x3f82},
		{"just above a tie", math.Float32frombits(0x3f808001), 0x3f81},
		{"carry into the exponent", math.Float32frombits(0x3fffffff), 0x4000},
		{"too large", math.MaxFloat32, 0x7f80},
		{"minus infinity", float32(math.Inf(-1)), 0xff80},
		{"minus zero", float32(math.Copysign(0, -1)), 0x8000},
		{"a NaN whose payload is cut off", math.Float32frombits(0x7f800001), 0x7fc0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Bfloat(tt.in); got != tt.want {
				t.Errorf("%v becomes %#x, want %#x", tt.in, got, tt.want)
			}
		})
	}
}

// TestHalf rebuilds every finite half-precision number from its fields.
func TestHalf(t *testing.T) {
	for u := range 0x7c00 {
		exponent, fraction := u>>10, float64(u&1023)
		want := math.Ldexp(fraction, -24)
		if exponent > 0 {
			want = math.Ldexp(1024+fraction, exponent-25)
		}
		if got := float64(Half(uint16(u))); got != want {
			t.Fatalf("%#x is %v, want %v", u, got, want)
		}
		if got := float64(Half(uint16(u) | 0x8000)); got != -want {
			t.Fatalf("%#x is %v, want %v", u|0x8000, got, -want)
		}
	}
	if v := Half(0x7c00); !math.IsInf(float64(v), 1) {
		t.Errorf("infinity is %v", v)
	}
	if v := Half(0x7e00); v == v {
		t.Errorf("NaN is %v", v)
	}
}

func TestAffine(t *testing.T) {
	// 3-bit codes 0..7, four times: 8 codes are the 24 bits of 0xfac688.
	row := []byte{0x88, 0xc6, 0xfa, 0x88, 0xc6, 0xfa, 0x88, 0xc6, 0xfa, 0x88, 0xc6, 0xfa}
	pairs := []byte{0x00, 0x40, 0x80, 0xbf} // scale 2, bias -1
	m := Affine(1, 32, 3, 32, row, 16, pairs, 4, BF16, 2)
	for i, v := range m.Row(0) {
		if want := float32(i%8*2 - 1); v != want {
			t.Errorf("weight %d is %v, want %v", i, v, want)
		}
	}
}

func TestBest(t *testing.T) {
	nan := float32(math.NaN())
	got := Best([]float32{1, 3, 3, 9, nan, 9, 0, 0}, []uint32{0b00110111}, 2)
	want := []Partial{{3, 1}, {3, 2}, {nan, 4}, {float32(math.Inf(-1)), math.MaxUint32}}
	for i, w := range want {
		if got[i].ID != w.ID || got[i].Logit != w.Logit && w.Logit == w.Logit {
			t.Errorf("tile %d: %+v, want %+v", i, got[i], w)
		}
	}
}
