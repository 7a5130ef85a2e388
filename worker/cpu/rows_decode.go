package cpu

import (
	"encoding/binary"
	"math"

	"lilypad/worker/checkpoint"
)

// Codes as floats: of a byte's low and high nibble, and of the byte.
var lowNibble, highNibble, codeFloat [256]float32

func init() {
	for i := range codeFloat {
		lowNibble[i] = float32(i & 15)
		highNibble[i] = float32(i >> 4)
		codeFloat[i] = float32(i)
	}
}

// widen2 is elements i and i+1 of a bf16 block; i is even.
func widen2(p *blockHf, i int) (lo, hi float32) {
	u := binary.LittleEndian.Uint32(p[2*i : 2*i+4])
	return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
}

// unpackRow writes row r of w to dst: stored floats, or the codes of an affine matrix as floats, then zeros up to the
// padded width.
func unpackRow(dst []float32, w *checkpoint.Matrix, r int) {
	stride := w.RowBytes()
	data := w.Data[r*stride : (r+1)*stride]
	clear(dst[w.Cols:padded(w.Cols)])
	dst = dst[:w.Cols]
	switch {
	case w.Type == checkpoint.Affine && w.Bits == 4:
		for i, b := range data {
			d := dst[2*i : 2*i+2 : 2*i+2]
			d[0], d[1] = lowNibble[b], highNibble[b]
		}
	case w.Type == checkpoint.Affine:
		unpackCodes(dst, data, uint(w.Bits))
	default:
		widen(dst, data, w.Type)
	}
}

// unpackCodes reads codes of 1 to 8 bits from a little-endian bit stream. len(dst) is a multiple of 32, so 8 codes fill
// whole bytes.
func unpackCodes(dst []float32, data []byte, bits uint) {
	mask := uint64(1)<<bits - 1
	for len(dst) >= 8 {
		var word uint64
		for i := range bits {
			word |= uint64(data[i]) << (8 * i)
		}
		d := (*[8]float32)(dst)
		for i := range d {
			d[i] = codeFloat[byte(word&mask)]
			word >>= bits
		}
		dst, data = dst[8:], data[bits:]
	}
}

// widen converts stored floats.
func widen(dst []float32, data []byte, t checkpoint.DType) {
	switch t {
	case checkpoint.BF16:
		src := blocks[[2]byte](data)[:len(dst)]
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[i][:])) << 16)
		}
	case checkpoint.F16:
		src := blocks[[2]byte](data)[:len(dst)]
		for i := range dst {
			dst[i] = halfFloat(binary.LittleEndian.Uint16(src[i][:]))
		}
	case checkpoint.F32:
		src := blocks[[4]byte](data)[:len(dst)]
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[i][:]))
		}
	default:
		panic("BUG: no float type: " + t.String())
	}
}

// halfFloat converts IEEE half precision. The exponent is moved by a product that is exact for normal and subnormal
// numbers alike; infinities and NaNs keep their all-ones exponent.
func halfFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | 0x7f800000 | uint32(h&0x3ff)<<13)
	}
	f := math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112
	return math.Float32frombits(sign | math.Float32bits(f))
}
