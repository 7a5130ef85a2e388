package kernels

import (
	"fmt"

	"lilypad/metal"
)

const rowThreads = 256 // ROW_THREADS of prefill_rows.metal and prefill_embed.metal

// EmbedRows puts the embeddings of Count tokens into the residual. A token beyond the matrix takes its last row.
type EmbedRows struct {
	W     Matrix // [V, H]
	IDs   Ref    // u32 [Count]
	Count int
	H     Ref // f32 [Count][H]
}

// EmbedRows prepares e. Declared reads are those of as many rows as there are tokens.
func (s *Set) EmbedRows(e EmbedRows) (*metal.Dispatch, error) {
	if err := e.W.check(); err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	if e.Count < 1 {
		return nil, fmt.Errorf("embedding of %d tokens", e.Count)
	}
	p, err := s.pipeline("prefill_embed", "embed_rows", e.W.constants(0)...)
	if err != nil {
		return nil, err
	}
	w, place := e.W.binding(min(e.Count, e.W.Rows))
	buffers := []metal.Binding{w, e.IDs.in(4 * int64(e.Count)), e.H.out(4 * int64(e.Count) * int64(e.W.Cols))}
	params := struct {
		W          placed
		Rows, Cols uint32
	}{place, uint32(e.W.Rows), uint32(e.W.Cols)}
	return s.dispatch(p, buffers, params, metal.Line(e.Count), metal.Line(rowThreads))
}

// NormRows is the RMS norm of rows of the residual: x = h/rms(h)*gain, a row's as if it were alone.
type NormRows struct {
	H     Ref // f32 [Count][Cols], at a multiple of 16 bytes
	Count int
	Cols  int // a multiple of 4
	Gain  Ref // f32 [Cols], the 1 added, at a multiple of 16 bytes
	Eps   float32
	X     Ref  // f16 [Count][Cols], written, at a multiple of 8 bytes
	Exact *Ref // f32 [Count][Cols], written too unless nil: x before it is rounded, at a multiple of 16 bytes
}

type rowParams struct {
	Cols uint32
	Eps  float32
}

func (n NormRows) check() error {
	switch {
	case n.Count < 1 || n.Cols < 4 || n.Cols%4 != 0:
		return fmt.Errorf("norm of %d rows of %d columns: want a multiple of 4", n.Count, n.Cols)
	case n.H.Offset%16 != 0 || n.Gain.Offset%16 != 0 || n.X.Offset%8 != 0 || n.Exact != nil && n.Exact.Offset%16 != 0:
		return fmt.Errorf("norm of rows at byte %d, gains at %d, to %d: want multiples of 16", n.H.Offset, n.Gain.Offset, n.X.Offset)
	}
	return nil
}

// NormRows prepares n.
func (s *Set) NormRows(n NormRows) (*metal.Dispatch, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	size, cols := int64(n.Count)*int64(n.Cols), int64(n.Cols)
	buffers := []metal.Binding{n.H.in(4 * size), n.Gain.in(4 * cols), n.X.out(2 * size)}
	name := "norm_rows"
	if n.Exact != nil {
		name, buffers = "norm_rows_exact", append(buffers, n.Exact.out(4*size))
	}
	p, err := s.pipeline("prefill_rows", name, metal.Uint(0, uint32(F16)), metal.Uint(1, 1)) // of which this kernel reads none
	if err != nil {
		return nil, err
	}
	return s.dispatch(p, buffers, rowParams{uint32(n.Cols), n.Eps}, metal.Line(n.Count), metal.Line(rowThreads))
}

// CombineRows adds to the residual of each token the weighted sum of its experts' outputs, in ascending order of slots, and
// after it the shared expert's; and writes the next norm.
type CombineRows struct {
	TopK    int
	Places  Ref      // u32 [Count][TopK]
	Weights Ref      // f32 [Count][TopK+1]; the last is the shared expert's
	Experts Ref      // Type [Count*TopK][Cols], by row, at a multiple of 16 bytes
	Shared  Ref      // Type [Count][Cols], at a multiple of 16 bytes
	Type    Type     // F16 or F32
	Norm    NormRows // of the sum, H being changed; Exact is not made
}

// CombineRows prepares c.
func (s *Set) CombineRows(c CombineRows) (*metal.Dispatch, error) {
	n := c.Norm
	if err := n.check(); err != nil {
		return nil, err
	}
	if c.TopK < 1 || c.TopK > MaxTopK || c.Type == BF16 || n.Exact != nil || c.Experts.Offset%16 != 0 || c.Shared.Offset%16 != 0 {
		return nil, fmt.Errorf("sums of %d experts' outputs of %v at bytes %d and %d: want at most %d, f16 or f32, multiples of 16",
			c.TopK, c.Type, c.Experts.Offset, c.Shared.Offset, MaxTopK)
	}
	p, err := s.pipeline("prefill_rows", "combine_rows", metal.Uint(0, uint32(c.Type)), metal.Uint(1, uint32(c.TopK)))
	if err != nil {
		return nil, err
	}
	count, cols, k, bytes := int64(n.Count), int64(n.Cols), int64(c.TopK), int64(c.Type.Bytes())
	buffers := []metal.Binding{n.H.inout(4 * count * cols), c.Experts.in(bytes * count * k * cols), c.Places.in(4 * count * k),
		c.Weights.in(4 * count * (k + 1)), c.Shared.in(bytes * count * cols), n.Gain.in(4 * cols), n.X.out(2 * count * cols)}
	return s.dispatch(p, buffers, rowParams{uint32(n.Cols), n.Eps}, metal.Line(n.Count), metal.Line(rowThreads))
}
