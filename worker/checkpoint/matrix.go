package checkpoint

import "fmt"

// String names the type as safetensors does.
func (t DType) String() string {
	switch t {
	case BF16:
		return "BF16"
	case F16:
		return "F16"
	case F32:
		return "F32"
	case Affine:
		return "affine"
	}
	return fmt.Sprintf("DType(%d)", int(t))
}

// Size is the bytes of one element of a float type; Affine has none.
func (t DType) Size() int {
	switch t {
	case BF16, F16:
		return 2
	case F32:
		return 4
	}
	panic("BUG: no element size of " + t.String())
}

// RowBytes is the stride of Data: the bytes of one row of elements or codes.
func (m *Matrix) RowBytes() int {
	if m.Type == Affine {
		return m.Cols * m.Bits / 8
	}
	return m.Cols * m.Type.Size()
}

// Groups is the number of (scale, bias) pairs of one row; 0 unless Affine.
func (m *Matrix) Groups() int {
	if m.Type != Affine {
		return 0
	}
	return m.Cols / m.Group
}

// ScaleRowBytes is the stride of Scales and of Biases; 0 unless Affine.
func (m *Matrix) ScaleRowBytes() int {
	if m.Type != Affine {
		return 0
	}
	return m.Groups() * m.ScaleType.Size()
}

// Bytes is the memory of the matrix: data, scales and biases.
func (m *Matrix) Bytes() int64 {
	return int64(len(m.Data)) + int64(len(m.Scales)) + int64(len(m.Biases))
}

// Slice returns rows [from, from+n) as a view of m.
func (m *Matrix) Slice(from, n int) Matrix {
	v := *m
	v.Rows = n
	v.Data = cut(m.Data, from, n, m.RowBytes())
	if m.Type == Affine {
		v.Scales = cut(m.Scales, from, n, m.ScaleRowBytes())
		v.Biases = cut(m.Biases, from, n, m.ScaleRowBytes())
	}
	return v
}

func cut(b []byte, from, n, stride int) []byte {
	return b[from*stride : (from+n)*stride : (from+n)*stride]
}

// Row dequantises row r into dst[:Cols]: stored floats widened, or w = scale*code + bias in fp32 with the product rounded
// before the sum (never fused), so that every platform gives the same bits.
func (m *Matrix) Row(r int, dst []float32) {
	dst = dst[:m.Cols]
	data := m.Data[r*m.RowBytes():][:m.RowBytes()]
	if m.Type != Affine {
		decode(m.Type, data, dst)
		return
	}
	unpack(m.Bits, data, dst)
	stride, size := m.ScaleRowBytes(), m.ScaleType.Size()
	var scale, bias [1]float32
	for g := range m.Groups() {
		at := r*stride + g*size
		decode(m.ScaleType, m.Scales[at:at+size], scale[:])
		decode(m.ScaleType, m.Biases[at:at+size], bias[:])
		w := dst[g*m.Group:][:m.Group]
		for i, q := range w {
			w[i] = float32(scale[0]*q) + bias[0]
		}
	}
}

// unpack writes the codes of a row, one float for each element of dst: code i is in bits [i*bits, (i+1)*bits) of the
// little-endian bit stream.
func unpack(bits int, data []byte, dst []float32) {
	mask := uint32(1)<<bits - 1
	var have int
	var word uint32
	next := 0
	for i := range dst {
		for have < bits {
			word |= uint32(data[next]) << have
			next++
			have += 8
		}
		dst[i] = float32(word & mask)
		word >>= bits
		have -= bits
	}
}

// pack writes the codes of a row, the inverse of unpack. A row of whole groups fills whole bytes.
func pack(bits int, codes []uint32, data []byte) {
	var have, next int
	var word uint32
	for _, c := range codes {
		word |= c << have
		have += bits
		for have >= 8 {
			data[next] = byte(word)
			next++
			word >>= 8
			have -= 8
		}
	}
}
