package ref

import "math"

// maxHalf is the largest finite half-precision number.
const maxHalf = 65504

// HalfBits rounds x to the nearest half-precision number, ties to even; those beyond the largest one become it, and a NaN
// stays one.
func HalfBits(x float32) uint16 {
	u := math.Float32bits(x)
	sign, size := uint16(u>>16&0x8000), float32(math.Abs(float64(x)))
	switch {
	case x != x:
		return sign | 0x7e00
	case size >= maxHalf:
		return sign | 0x7bff
	case size < 0x1p-14: // a multiple of 2^-24, of which 1024 are the smallest normal number
		return sign | uint16(math.RoundToEven(float64(size)*0x1p24))
	}
	u &= 0x7fffffff
	return sign | uint16((u-112<<23+0xfff+u>>13&1)>>13)
}

// RoundHalf is x rounded as HalfBits does.
func RoundHalf(x float32) float32 { return Half(HalfBits(x)) }
