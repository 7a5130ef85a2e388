package kernels

import (
	"fmt"

	"lilypad/metal"
)

type copyParams struct{ Low, High, Threads uint32 }

// Copy copies bytes, a multiple of 4, from src to dst on the GPU; the ranges must not overlap. It is fastest where bytes
// and both offsets are multiples of 16.
func (s *Set) Copy(dst, src Ref, bytes int64) (*metal.Dispatch, error) {
	if bytes <= 0 || bytes%4 != 0 {
		return nil, fmt.Errorf("copying %d bytes: want a multiple of 4", bytes)
	}
	name, piece := "copy_16", int64(16)
	if (bytes|dst.Offset|src.Offset)%16 != 0 {
		name, piece = "copy_4", 4
	}
	p, err := s.pipeline("copy", name)
	if err != nil {
		return nil, err
	}
	const width, pieces = 256, 4 // threads of a threadgroup, pieces of a thread
	count := bytes / piece
	groups := (count + width*pieces - 1) / (width * pieces)
	params := copyParams{uint32(count), uint32(count >> 32), uint32(groups * width)}
	return s.dispatch(p, []metal.Binding{dst.out(bytes), src.in(bytes)}, params, metal.Line(int(groups)), metal.Line(width))
}
