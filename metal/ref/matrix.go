package ref

import (
	"encoding/binary"
	"math"
)

// Matrix is weights in fp32, [Rows, Cols].
type Matrix struct {
	Rows, Cols int
	Data       []float32
}

// Row is row r.
func (m Matrix) Row(r int) []float32 { return m.Data[r*m.Cols : (r+1)*m.Cols] }

// Slice is the rows from..to.
func (m Matrix) Slice(from, to int) Matrix {
	return Matrix{to - from, m.Cols, m.Data[from*m.Cols : to*m.Cols]}
}

// Number reads one stored number, little endian.
type Number func(b []byte) float32

// The stored numbers.
var (
	BF16 Number = func(b []byte) float32 { return Float(binary.LittleEndian.Uint16(b)) }
	F16  Number = func(b []byte) float32 { return Half(binary.LittleEndian.Uint16(b)) }
	F32  Number = func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
)

// Plain reads numbers of size bytes, a row every rowBytes.
func Plain(rows, cols int, b []byte, rowBytes int, number Number, size int) Matrix {
	m := Matrix{rows, cols, make([]float32, 0, rows*cols)}
	for r := range rows {
		for c := range cols {
			m.Data = append(m.Data, number(b[r*rowBytes+c*size:]))
		}
	}
	return m
}

// Affine reads scale*code+bias: codes of bits bits, little endian, a row every rowBytes, and for each group of columns a
// scale and a bias, both numbers of size bytes, a row every pairBytes.
func Affine(rows, cols, bits, group int, codes []byte, rowBytes int, pairs []byte, pairBytes int, number Number, size int) Matrix {
	m := Matrix{rows, cols, make([]float32, 0, rows*cols)}
	for r := range rows {
		row := codes[r*rowBytes:]
		for c := range cols {
			pair := pairs[r*pairBytes+c/group*2*size:]
			scale, bias := number(pair), number(pair[size:])
			m.Data = append(m.Data, float32(float64(scale)*float64(code(row, c*bits, bits))+float64(bias)))
		}
	}
	return m
}

// code is the bits bits of b from bit on.
func code(b []byte, bit, bits int) uint32 {
	var v uint32
	for i := range bits {
		v |= uint32(b[(bit+i)/8]>>((bit+i)%8)&1) << i
	}
	return v
}
