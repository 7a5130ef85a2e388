package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Residual is the residual vector and what its next norm needs, written together by whatever changes it.
type Residual struct {
	H       Ref // f32 [H]
	Gained  Ref // f32 [H] in lane order: h times the gain of the next norm
	Squares Ref // f32 [H/8]: sums of h*h over 8 columns each
	Gain    Ref // f32 [H]: of the next norm, the 1 added
}

// bindings are h, gain, gained and squares of n columns.
func (r Residual) bindings(h metal.Binding, n int64) []metal.Binding {
	return []metal.Binding{h, r.Gain.in(4 * n), r.Gained.vectors(metal.Out, 1, int(n)), r.Squares.out(n / 2)}
}

// Embed puts the embedding of the step's token into the residual. A token beyond the matrix takes its last row.
type Embed struct {
	W        Matrix // [V, H], H a multiple of 8
	Step     Ref    // Step in common.metal, of which the token comes first
	Residual Residual
}

type embedParams struct {
	W          placed
	Rows, Cols uint32
}

// Embed prepares e.
func (s *Set) Embed(e Embed) (*metal.Dispatch, error) {
	if err := e.W.check(); err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	if e.W.Cols%8 != 0 {
		return nil, fmt.Errorf("embedding: %d columns: want a multiple of 8", e.W.Cols)
	}
	p, err := s.pipeline("embed", "embed", e.W.constants(0)...)
	if err != nil {
		return nil, err
	}
	w, place := e.W.binding(1)
	cols := int64(e.W.Cols)
	buffers := append([]metal.Binding{w, e.Step.in(4)}, e.Residual.bindings(e.Residual.H.out(4*cols), cols)...)
	const width = 32 // spread over many cores: this is the first thing of a token, and all wait for it
	groups := (e.W.Cols/8 + width - 1) / width
	return s.dispatch(p, buffers, embedParams{place, uint32(e.W.Rows), uint32(cols)}, metal.Line(groups), metal.Line(width))
}
