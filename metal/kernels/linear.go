package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Norm is a norm that a consumer of a residual finishes: its X is h*gain, and the outputs are multiplied by 1/rms(h).
type Norm struct {
	Squares Ref // f32 [Parts], as in Residual
	Parts   int
	Eps     float32
}

// Best asks for the largest logit of each tile of rows. A partial is {f32 logit, u32 id}: of equal logits the lowest id; a
// NaN stands for the tile, with the lowest id that has one; a tile without an allowed id has the id 0xffffffff.
type Best struct {
	Partials Ref // 8 bytes for each of BestParts
	Allowed  Ref // u32 [ceil(rows/32)]: bit i%32 of word i/32 says whether id i may be sampled
}

// Linear is a matrix times a vector, with one of four ends: Out alone; SwiGLU; Residual; Best with Out.
type Linear struct {
	W        Matrix
	X        Ref   // f32 [W.Cols] in lane order, at a multiple of 16 bytes
	Norm     *Norm // not together with Residual; always with Best
	Out      Ref   // f32 [W.Rows]; unused with Residual
	SwiGLU   bool  // Out[i] = silu(row i) * row Rows/2+i, [W.Rows/2] in lane order
	Residual *Residual
	Best     *Best
}

type linearParams struct {
	W                 placed
	Rows, Cols, Parts uint32
	Eps               float32
}

// Linear prepares l.
func (s *Set) Linear(l Linear) (*metal.Dispatch, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("linear of %d rows and %d columns: %w", l.W.Rows, l.W.Cols, err)
	}
	return s.linear(l, s.route(l))
}

// BestParts is the number of partials that Best yields for a matrix of rows.
func (s *Set) BestParts(rows int) int { return (rows + BestRows - 1) / BestRows }

func (s *Set) route(l Linear) route {
	if c, ok := s.table[l.Key()]; ok && c.serves(l) {
		return route{c.Rows, c.Split, c.Sets, c.Tiles}
	}
	return chooseRoute(l.W.Rows, l.W.units(), s.device.Info().Cores, l.limits())
}

func (l Linear) check() error {
	if err := l.W.check(); err != nil {
		return err
	}
	switch {
	case l.X.Offset%16 != 0:
		return fmt.Errorf("its vector is at byte %d: want a multiple of 16", l.X.Offset)
	case l.SwiGLU && l.W.Rows%2 != 0:
		return fmt.Errorf("gates and ups are an odd number of rows")
	case l.Residual != nil && l.W.Rows%8 != 0:
		return fmt.Errorf("a residual wants a multiple of 8 rows")
	case l.Residual != nil && (l.Norm != nil || l.SwiGLU || l.Best != nil), l.Best != nil && (l.Norm == nil || l.SwiGLU):
		return fmt.Errorf("this combination of norm, SwiGLU, residual and best is not made")
	}
	return nil
}

// linear prepares l, which is checked, by route r.
func (s *Set) linear(l Linear, r route) (*metal.Dispatch, error) {
	w, place := l.W.binding(l.W.Rows)
	params := linearParams{W: place, Rows: uint32(l.W.Rows), Cols: uint32(l.W.Cols)}
	buffers := []metal.Binding{w, l.X.vectors(metal.In, 1, l.W.Cols)}
	name := "linear"
	if l.Norm != nil {
		name = "linear_normed"
		params.Parts, params.Eps = uint32(l.Norm.Parts), l.Norm.Eps
		buffers = append(buffers, l.Norm.Squares.in(4*int64(l.Norm.Parts)))
	}
	rows := int64(l.W.Rows)
	tiles := (l.W.Rows + r.tile() - 1) / r.tile()
	switch {
	case l.Residual != nil:
		name = "linear_residual"
		buffers = append(buffers, l.Residual.bindings(l.Residual.H.inout(4*rows), rows)...)
	case l.Best != nil:
		name = "linear_best"
		buffers = append(buffers, l.Out.out(4*rows), l.Best.Allowed.in((rows+31)/32*4), l.Best.Partials.out(8*int64(tiles)))
	case l.SwiGLU:
		buffers = append(buffers, l.Out.vectors(metal.Out, 1, l.W.Rows/2))
	default:
		buffers = append(buffers, l.Out.out(4*rows))
	}
	constants := append(l.W.constants(0), metal.Uint(3, uint32(r.rows)), metal.Uint(4, uint32(r.split)),
		metal.Uint(5, uint32(r.sets)), metal.Bool(6, l.SwiGLU), metal.Uint(7, uint32(r.tiles)))
	p, err := s.pipeline("linear", name, constants...)
	if err != nil {
		return nil, err
	}
	return s.dispatch(p, buffers, params, metal.Line((tiles+r.tiles-1)/r.tiles), metal.Line(r.threads()))
}
