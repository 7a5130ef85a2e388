// Package ref holds float32 twins of the Metal kernels: plain loops over slices that round nothing; where the kernels' memory
// is bf16, whoever compares rounds. They are what kernels are tested against. Package ref must not import anything of ours.
package ref

import "math"

// Bfloat rounds x to the nearest bf16, ties to even; a NaN stays one.
func Bfloat(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// Float is the value of a bf16.
func Float(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Round is x rounded to bf16.
func Round(x float32) float32 { return Float(Bfloat(x)) }

// Half is the value of an IEEE half-precision number.
func Half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero or subnormal: fraction * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// Sigmoid is 1/(1+e^-x).
func Sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// SiLU is x*Sigmoid(x).
func SiLU(x float32) float32 { return float32(float64(x) / (1 + math.Exp(-float64(x)))) }
