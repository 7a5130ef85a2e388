package gpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"lilypad/metal/kernels"
	"lilypad/worker/checkpoint"
)

// formatOf is the device format of a stored matrix.
func formatOf(m *checkpoint.Matrix) kernels.Format {
	if m.Type == checkpoint.Affine {
		return kernels.Format{Bits: m.Bits, Group: m.Group, Type: typeOf(m.ScaleType)}
	}
	return kernels.Format{Type: typeOf(m.Type)}
}

func typeOf(t checkpoint.DType) kernels.Type {
	switch t {
	case checkpoint.F16:
		return kernels.F16
	case checkpoint.F32:
		return kernels.F32
	}
	return kernels.BF16
}

// asFloat is what matrices that must share a format, but don't, become: exact, since dequantising is defined in fp32.
var asFloat = kernels.Format{Type: kernels.F32}

// commonFormat is the format of all matrices, or asFloat and false when they differ.
func commonFormat(list ...*checkpoint.Matrix) (kernels.Format, bool) {
	f := formatOf(list[0])
	for _, m := range list[1:] {
		if formatOf(m) != f {
			return asFloat, false
		}
	}
	return f, true
}

// packCodes writes rows [from, from+n) of m, codes or elements, at the device's row stride. dst holds exactly those rows.
func packCodes(dst []byte, f kernels.Format, m *checkpoint.Matrix, from, n int, seed uint64) {
	stride := int(f.RowBytes(m.Cols))
	if m.Data == nil {
		randomCodes(dst, f, m.Cols, n, seed)
		return
	}
	if f != formatOf(m) {
		row := make([]float32, m.Cols)
		for r := range n {
			m.Row(from+r, row)
			for i, v := range row {
				binary.LittleEndian.PutUint32(dst[r*stride+4*i:], math.Float32bits(v))
			}
		}
		return
	}
	width := m.RowBytes()
	if width == stride {
		copy(dst, m.Data[from*width:(from+n)*width])
		return
	}
	for r := range n {
		copy(dst[r*stride:], m.Data[(from+r)*width:(from+r+1)*width])
	}
}

// packPairs writes the scales and biases of rows [from, from+n) as pairs. dst holds exactly those rows.
func packPairs(dst []byte, f kernels.Format, m *checkpoint.Matrix, from, n int, seed uint64) {
	stride := int(f.PairRowBytes(m.Cols))
	if m.Data == nil {
		randomPairs(dst, f, m.Cols, n, seed)
		return
	}
	width, size := m.ScaleRowBytes(), m.ScaleType.Size()
	for r := range n {
		scales, biases := m.Scales[(from+r)*width:][:width], m.Biases[(from+r)*width:][:width]
		out := dst[r*stride:]
		for i := 0; i < width; i += size {
			copy(out[2*i:], scales[i:i+size])
			copy(out[2*i+size:], biases[i:i+size])
		}
	}
}

// randomCodes fills rows with uniform codes, or elements of standard deviation about 1/sqrt(cols).
func randomCodes(dst []byte, f kernels.Format, cols, rows int, seed uint64) {
	rng := rand.NewPCG(seed, 1)
	if f.Bits > 0 {
		for len(dst) >= 8 {
			binary.LittleEndian.PutUint64(dst, rng.Uint64())
			dst = dst[8:]
		}
		return
	}
	stride := int(f.RowBytes(cols))
	for r := range rows {
		for i := range cols {
			putFloat(dst[r*stride+i*f.Type.Bytes():], f.Type, float32(unit(rng)*1.7/math.Sqrt(float64(cols))))
		}
	}
}

// randomPairs fills rows with scales and biases that make uniform codes weights of standard deviation about 1/sqrt(cols).
func randomPairs(dst []byte, f kernels.Format, cols, rows int, seed uint64) {
	rng := rand.NewPCG(seed, 2)
	top := float64(int(1)<<f.Bits - 1)
	step := 3.4 / math.Sqrt(float64(cols)) / top
	stride, size := int(f.PairRowBytes(cols)), f.Type.Bytes()
	for r := range rows {
		for g := range cols / f.Group {
			scale := step * (1 + unit(rng)/8)
			putFloat(dst[r*stride+2*g*size:], f.Type, float32(scale))
			putFloat(dst[r*stride+(2*g+1)*size:], f.Type, float32(-scale*top/2))
		}
	}
}

// unit is uniform in [-1, 1).
func unit(rng *rand.PCG) float64 { return float64(int64(rng.Uint64())) / (1 << 63) }

// putFloat stores v, cut to the type's precision.
func putFloat(dst []byte, t kernels.Type, v float32) {
	u := math.Float32bits(v)
	switch t {
	case kernels.F32:
		binary.LittleEndian.PutUint32(dst, u)
	case kernels.F16: // |v| is 0 or from 2^-14 to 2^15
		h := uint16(u>>16)&0x8000 | uint16(int(u>>23&0xff)-112)<<10 | uint16(u>>13)&0x3ff
		if math.Abs(float64(v)) < 0x1p-14 {
			h = 0
		}
		binary.LittleEndian.PutUint16(dst, h)
	default:
		binary.LittleEndian.PutUint16(dst, uint16(u>>16))
	}
}
