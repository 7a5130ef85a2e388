package checkpoint

import (
	"encoding/binary"
	"math"
)

// bf16ToFloat widens bfloat16 bits, exactly.
func bf16ToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// floatToBF16 rounds to the nearest bfloat16, ties to even; NaN stays NaN.
func floatToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7FFF + (u>>16)&1) >> 16)
}

// f16ToFloat widens IEEE half-precision bits, exactly.
func f16ToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1F, uint32(h&0x3FF)
	switch exp {
	case 0: // zero and subnormals: frac * 2^-24
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1F:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// floatToF16 rounds to the nearest half, ties to even; too large becomes infinity, NaN stays NaN.
func floatToF16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u>>16) & 0x8000
	switch abs := u & 0x7FFFFFFF; {
	case abs > 0x7F800000:
		return sign | 0x7E00
	case abs >= 0x477FF000: // 65520 and above round to infinity
		return sign | 0x7C00
	case abs < 0x38800000: // below 2^-14: a subnormal, a multiple of 2^-24
		n := math.RoundToEven(float64(math.Float32frombits(abs)) * 0x1p24)
		return sign | uint16(n)
	default:
		abs += 0xFFF + (abs>>13)&1
		return sign | uint16((abs-(127-15)<<23)>>13)
	}
}

// decode widens elements of a float type, one for each element of dst.
func decode(t DType, data []byte, dst []float32) {
	switch t {
	case BF16:
		for i := range dst {
			dst[i] = bf16ToFloat(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = f16ToFloat(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	default:
		panic("BUG: decode of " + t.String())
	}
}

// encode rounds v to element i of data.
func encode(t DType, data []byte, i int, v float32) {
	switch t {
	case BF16:
		binary.LittleEndian.PutUint16(data[2*i:], floatToBF16(v))
	case F16:
		binary.LittleEndian.PutUint16(data[2*i:], floatToF16(v))
	case F32:
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	default:
		panic("BUG: encode of " + t.String())
	}
}
