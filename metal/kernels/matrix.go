package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Type is the type of stored numbers.
type Type int

// The types of weights, scales and outputs.
const (
	BF16 Type = iota
	F16
	F32
)

// Bytes is the size of one number.
func (t Type) Bytes() int {
	if t == F32 {
		return 4
	}
	return 2
}

func (t Type) String() string {
	if t < BF16 || t > F32 {
		return fmt.Sprintf("type %d", int(t))
	}
	return [...]string{"bf16", "f16", "f32"}[t]
}

// Format says how a matrix is stored. With Bits 0 its elements are of Type. Else weight i of a row is
// scale*code + bias: code i takes bits [i*Bits, (i+1)*Bits) of the row, little endian, and scale and bias belong to its
// Group of consecutive columns; both are of Type and stored side by side.
type Format struct {
	Bits  int // 2, 3, 4, 5, 6 or 8; 0: not quantised
	Group int // 32, 64 or 128 columns
	Type  Type
}

func (f Format) String() string {
	if f.Bits == 0 {
		return f.Type.String()
	}
	return fmt.Sprintf("%d bits, groups of %d with %v scales", f.Bits, f.Group, f.Type)
}

// padded rounds n up to a multiple of m, a power of two.
func padded(n, m int64) int64 { return (n + m - 1) &^ (m - 1) }

// RowBytes is the distance in bytes from row to row of the codes or elements: a multiple of 16, for 16-byte loads.
func (f Format) RowBytes(cols int) int64 { return padded(f.usedRowBytes(cols), 16) }

func (f Format) usedRowBytes(cols int) int64 {
	if f.Bits == 0 {
		return int64(cols) * int64(f.Type.Bytes())
	}
	return int64(cols) * int64(f.Bits) / 8
}

// PairRowBytes is the distance in bytes from row to row of the scale and bias pairs; 0 when not quantised.
func (f Format) PairRowBytes(cols int) int64 {
	if f.Bits == 0 {
		return 0
	}
	return int64(cols/f.Group) * int64(2*f.Type.Bytes())
}

// CodesBytes is the size of the codes or elements of a matrix.
func (f Format) CodesBytes(rows, cols int) int64 { return int64(rows) * f.RowBytes(cols) }

// PairsBytes is the size of the pairs of a matrix.
func (f Format) PairsBytes(rows, cols int) int64 { return int64(rows) * f.PairRowBytes(cols) }

// Check refuses formats and column counts that no kernel reads.
func (f Format) Check(cols int) error {
	if f.Type < BF16 || f.Type > F32 {
		return fmt.Errorf("%v: want bf16, f16 or f32", f.Type)
	}
	if cols <= 0 {
		return fmt.Errorf("a matrix of %d columns", cols)
	}
	switch f.Bits {
	case 0:
		return nil
	case 2, 3, 4, 5, 6, 8:
	default:
		return fmt.Errorf("weights of %d bits: want 2, 3, 4, 5, 6 or 8", f.Bits)
	}
	if f.Group != 32 && f.Group != 64 && f.Group != 128 {
		return fmt.Errorf("quantisation groups of %d columns: want 32, 64 or 128", f.Group)
	}
	if cols%f.Group != 0 {
		return fmt.Errorf("%d columns are not a multiple of the quantisation group of %d", cols, f.Group)
	}
	return nil
}

// constants are the function constants id (bits), id+1 (group) and id+2 (type) of the format.
func (f Format) constants(id int) []metal.Constant {
	return []metal.Constant{metal.Uint(id, uint32(f.Bits)), metal.Uint(id+1, uint32(max(f.Group, 32))), metal.Uint(id+2, uint32(f.Type))}
}

// Matrix is weights of Rows outputs and Cols inputs in device memory.
type Matrix struct {
	Format
	Rows, Cols   int
	Buffer       *metal.Buffer
	Codes, Pairs int64 // bytes from the buffer's start, multiples of 16; Pairs is unused when not quantised
}

func (m Matrix) check() error {
	if err := m.Format.Check(m.Cols); err != nil {
		return err
	}
	if m.Rows <= 0 || m.Buffer == nil {
		return fmt.Errorf("a matrix of %d rows, or without a buffer", m.Rows)
	}
	if m.Codes%16 != 0 || m.Pairs%16 != 0 {
		return fmt.Errorf("a matrix with codes at byte %d and pairs at %d: want multiples of 16", m.Codes, m.Pairs)
	}
	return nil
}

// units is the number of pieces of a row that lanes load: see dot.metal.
func (m Matrix) units() int {
	if m.Bits == 0 {
		return (m.Cols + 7) / 8
	}
	return m.Cols / 32
}

// placed is where the rows of a matrix lie from the start of its binding: the constants that kernels get as Placed.
type placed struct {
	Codes, Pairs        uint32 // multiples of 16 bytes
	RowBytes, PairBytes uint32
}

// binding is the memory from the first to the last byte of codes and pairs, of which kernels read rows rows, and the place
// of the matrix in it.
func (m Matrix) binding(rows int) (metal.Binding, placed) {
	codes, pairs := m.CodesBytes(m.Rows, m.Cols), m.PairsBytes(m.Rows, m.Cols)
	from, to := m.Codes, m.Codes+codes
	if m.Bits != 0 {
		from, to = min(from, m.Pairs), max(to, m.Pairs+pairs)
	}
	b := metal.Binding{Buffer: m.Buffer, Offset: from, Length: to - from, Access: metal.In,
		Reads: int64(rows) * (m.usedRowBytes(m.Cols) + m.PairRowBytes(m.Cols))}
	return b, placed{
		Codes: uint32((m.Codes - from) / 16), Pairs: uint32(max(m.Pairs-from, 0) / 16),
		RowBytes: uint32(m.RowBytes(m.Cols)), PairBytes: uint32(m.PairRowBytes(m.Cols)),
	}
}

// Experts are the matrices of Count experts of one layer, each in a record of its own, Stride bytes apart.
type Experts struct {
	GateUp Matrix // of expert 0, [2*I, H]: the gate's rows, then those of up
	Down   Matrix // of expert 0, [H, I]
	Count  int
	Stride int64 // bytes from expert to expert, a multiple of 16
}

// Ref is a place in device memory.
type Ref struct {
	Buffer *metal.Buffer
	Offset int64 // bytes
}

// At is the place n bytes on.
func (r Ref) At(n int64) Ref { return Ref{r.Buffer, r.Offset + n} }

// in, out and inout bind n bytes from r on, all of which the kernel reads, writes, or both.
func (r Ref) in(n int64) metal.Binding {
	return metal.Binding{Buffer: r.Buffer, Offset: r.Offset, Length: n, Access: metal.In}
}

func (r Ref) out(n int64) metal.Binding {
	return metal.Binding{Buffer: r.Buffer, Offset: r.Offset, Length: n, Access: metal.Out}
}

func (r Ref) inout(n int64) metal.Binding {
	return metal.Binding{Buffer: r.Buffer, Offset: r.Offset, Length: n, Access: metal.InOut}
}

// StepBytes is the size of the state of a sequence between tokens: Step in common.metal.
const StepBytes = 24
