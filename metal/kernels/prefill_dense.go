package kernels

import (
	"fmt"

	"lilypad/metal"
)

// LinearRows is a matrix times Count vectors. Outputs are stored as OutType, added to the residual Out, or paired by SwiGLU:
// out[i] = silu(row i) * row Rows/2+i. An output's bits don't depend on the other vectors.
type LinearRows struct {
	W        Matrix // Cols a multiple of 8
	X        Ref    // XType [Count][W.Cols], at a multiple of 16 bytes
	XType    Type   // F16; with F32, products are of fp32 numbers, not of f16 ones (a few times slower)
	Count    int
	Out      Ref  // OutType [Count][W.Rows], or F16 [Count][W.Rows/2] with SwiGLU, at a multiple of 16 bytes
	OutType  Type // F16 or F32; what a half can't hold becomes +-65504
	Stride   int  // outputs from a vector's first to the next one's; 0: as many as there are
	SwiGLU   bool
	Residual bool // f32: adds to Out instead of storing
}

// What the ends of a tile do: END_… of prefill_tile.metal.
const (
	endF16 = iota
	endF32
	endSwiGLU
	endResidual
)

const tileThreads = 128 // TILE_THREADS of prefill_tile.metal

func (l LinearRows) check() error {
	if err := l.W.check(); err != nil {
		return err
	}
	switch {
	case l.Count < 1:
		return fmt.Errorf("%d vectors", l.Count)
	case l.W.Cols%8 != 0:
		return fmt.Errorf("its columns are not a multiple of 8")
	case l.X.Offset%16 != 0 || l.Out.Offset%16 != 0:
		return fmt.Errorf("vectors at byte %d and outputs at byte %d: want multiples of 16", l.X.Offset, l.Out.Offset)
	case l.XType == BF16, l.OutType == BF16:
		return fmt.Errorf("vectors of %v and outputs of %v are not made", l.XType, l.OutType)
	case l.SwiGLU && (l.OutType != F16 || l.Residual || l.W.Rows%4 != 0):
		return fmt.Errorf("SwiGLU wants f16 outputs, an even number of them, and no residual")
	case l.Stride != 0 && (l.Stride < l.W.Rows || l.SwiGLU):
		return fmt.Errorf("outputs %d apart, with SwiGLU %v: want at least %d, and none", l.Stride, l.SwiGLU, l.W.Rows)
	case l.Residual && l.OutType != F32:
		return fmt.Errorf("a residual of %v: want f32", l.OutType)
	}
	return nil
}

// end is what the kernel does with products, and the binding of what it writes.
func (l LinearRows) end() (uint32, metal.Binding) {
	n, span := int64(l.Count)*int64(l.W.Rows), int64(l.Count-1)*int64(l.stride())+int64(l.W.Rows)
	end, b, size := uint32(endF16), l.Out.out(2*span), int64(2)
	switch {
	case l.SwiGLU:
		return endSwiGLU, l.Out.out(n)
	case l.Residual:
		end, b, size = endResidual, l.Out.inout(4*span), 4
		b.Reads = size * n
	case l.OutType == F32:
		end, b, size = endF32, l.Out.out(4*span), 4
	}
	b.Writes = size * n
	return end, b
}

func (l LinearRows) stride() int {
	if l.Stride == 0 {
		return l.W.Rows
	}
	return l.Stride
}

// LinearRows prepares l.
func (s *Set) LinearRows(l LinearRows) (*metal.Dispatch, error) {
	return s.linearRows(l, s.denseTile(l))
}

// linearRows prepares l with tiles of size t.
func (s *Set) linearRows(l LinearRows, t tile) (*metal.Dispatch, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("linear of %d rows and %d columns for %d vectors: %w", l.W.Rows, l.W.Cols, l.Count, err)
	}
	end, out := l.end()
	name := "dense_"
	if l.XType == F32 {
		name = "dense_exact_"
	}
	p, err := s.pipeline("prefill_dense", name+t.String(), append(l.W.constants(0), metal.Uint(3, end))...)
	if err != nil {
		return nil, err
	}
	w, place := l.W.binding(l.W.Rows)
	buffers := []metal.Binding{w, l.X.in(int64(l.Count) * int64(l.W.Cols) * int64(l.XType.Bytes())), out}
	params := struct {
		W                            placed
		Outputs, Cols, Count, Stride uint32
	}{place, uint32(l.W.Rows), uint32(l.W.Cols), uint32(l.Count), uint32(l.stride())}
	groups := metal.Size{X: (l.Count + t.rows - 1) / t.rows, Y: (l.W.Rows + t.outputs - 1) / t.outputs, Z: 1}
	return s.dispatch(p, buffers, params, groups, metal.Line(tileThreads))
}
