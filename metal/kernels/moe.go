package kernels

import (
	"fmt"

	"lilypad/metal"
)

// Bounds of the router's kernel.
const (
	MaxExperts = 512
	MaxTopK    = 16
)

// Route chooses the experts of a token: softmax over all logits in fp32, the TopK largest with ties to the lowest id.
type Route struct {
	Logits    Ref  // f32 [Experts]
	Shared    Ref  // f32 [1]: logit of the shared expert's gate
	Experts   int  // at most MaxExperts
	TopK      int  // 1 to MaxTopK and Experts
	Normalise bool // weights add up to 1
	IDs       Ref  // u32 [TopK], written in ascending order
	Weights   Ref  // f32 [TopK+1], written: by slot, and last the sigmoid of Shared
}

// Route prepares r. A logit that is no number makes all weights NaN; the ids are valid whatever the logits.
func (s *Set) Route(r Route) (*metal.Dispatch, error) {
	if r.Experts < 1 || r.Experts > MaxExperts || r.TopK < 1 || r.TopK > min(MaxTopK, r.Experts) {
		return nil, fmt.Errorf("routing to %d of %d experts: want at most %d of %d", r.TopK, r.Experts, MaxTopK, MaxExperts)
	}
	p, err := s.pipeline("moe_route", "moe_route", metal.Uint(0, uint32(r.Experts)), metal.Uint(1, uint32(r.TopK)), metal.Bool(2, r.Normalise))
	if err != nil {
		return nil, err
	}
	k := int64(r.TopK)
	buffers := []metal.Binding{r.Logits.in(4 * int64(r.Experts)), r.Shared.in(4), r.IDs.out(4 * k), r.Weights.out(4*k + 4)}
	return s.dispatch(p, buffers, nil, metal.Line(1), metal.Line(256))
}

// binding is the memory of matrix m (of expert 0) in all records, of which a kernel reads that of k experts; and the
// matrix's place in a record.
func (e Experts) binding(m Matrix, k int) (metal.Binding, placed) {
	b, place := m.binding(m.Rows)
	b.Length += int64(e.Count-1) * e.Stride
	b.Reads *= int64(k)
	return b, place
}

// check refuses records that the kernels can't address.
func (e Experts) check(k int) error {
	if err := e.GateUp.check(); err != nil {
		return fmt.Errorf("experts' gate and up: %w", err)
	}
	if err := e.Down.check(); err != nil {
		return fmt.Errorf("experts' down: %w", err)
	}
	if e.Count < 1 || k < 1 || k > min(MaxTopK, e.Count) {
		return fmt.Errorf("%d of %d experts: want 1 to %d", k, e.Count, MaxTopK)
	}
	if e.Stride <= 0 && e.Count > 1 || e.Stride%16 != 0 {
		return fmt.Errorf("expert records %d bytes apart: want a multiple of 16", e.Stride)
	}
	if e.GateUp.Rows != 2*e.Down.Cols || e.GateUp.Cols != e.Down.Rows {
		return fmt.Errorf("experts with gate and up of %d by %d, down of %d by %d: want 2I by H and H by I",
			e.GateUp.Rows, e.GateUp.Cols, e.Down.Rows, e.Down.Cols)
	}
	if e.Down.Cols%8 != 0 || e.Down.Rows%8 != 0 {
		return fmt.Errorf("experts with down of %d by %d: want multiples of 8", e.Down.Rows, e.Down.Cols)
	}
	return nil
}

// ExpertsUp computes silu(gate x) * (up x) for the experts of the slots, x being normed by its scale.
type ExpertsUp struct {
	Experts Experts
	TopK    int
	IDs     Ref // u32 [TopK]
	X       Ref // f32 [H] in lane order, gained
	Norm    Norm
	Out     Ref // f32 [TopK][I], each in lane order
}

const (
	upGroups = 8 // UP_GROUPS of moe_up.metal
	upPairs  = 2 // UP_PAIRS
)

// ExpertsUp prepares u.
func (s *Set) ExpertsUp(u ExpertsUp) (*metal.Dispatch, error) {
	if err := u.Experts.check(u.TopK); err != nil {
		return nil, err
	}
	if u.X.Offset%16 != 0 {
		return nil, fmt.Errorf("experts' vector is at byte %d: want a multiple of 16", u.X.Offset)
	}
	m := u.Experts.GateUp
	p, err := s.pipeline("moe_up", "experts_up", m.constants(0)...)
	if err != nil {
		return nil, err
	}
	experts, place := u.Experts.binding(m, u.TopK)
	k, inner, cols := int64(u.TopK), m.Rows/2, int64(m.Cols)
	buffers := []metal.Binding{experts, u.IDs.in(4 * k), u.X.vectors(metal.In, 1, m.Cols), u.Norm.Squares.in(4 * int64(u.Norm.Parts)), u.Out.vectors(metal.Out, u.TopK, inner)}
	params := struct {
		Place                      placed
		Inner, Cols, Stride, Parts uint32
		Eps                        float32
	}{place, uint32(inner), uint32(cols), uint32(u.Experts.Stride / 16), uint32(u.Norm.Parts), u.Norm.Eps}
	groups := metal.Size{X: (inner + upGroups*upPairs - 1) / (upGroups * upPairs), Y: u.TopK, Z: 1}
	return s.dispatch(p, buffers, params, groups, metal.Line(32*upGroups))
}

// ExpertsDown adds to the residual the weighted sum of the experts' down projections, in ascending order of slots, and
// after it the shared expert's.
type ExpertsDown struct {
	Experts  Experts
	TopK     int
	IDs      Ref    // u32 [TopK]
	Weights  Ref    // f32 [TopK+1]; the last is the shared expert's
	X        Ref    // f32 [TopK][I], each in lane order
	Shared   Matrix // down [H, width of the shared expert], of any format
	SharedX  Ref    // f32 [width of the shared expert] in lane order
	Residual Residual
}

const downRows = 8 // DOWN_ROWS of moe_down.metal

// ExpertsDown prepares d.
func (s *Set) ExpertsDown(d ExpertsDown) (*metal.Dispatch, error) {
	if err := d.Experts.check(d.TopK); err != nil {
		return nil, err
	}
	if err := d.Shared.check(); err != nil {
		return nil, fmt.Errorf("shared expert's down: %w", err)
	}
	if d.X.Offset%16 != 0 || d.SharedX.Offset%16 != 0 {
		return nil, fmt.Errorf("experts' vectors are at byte %d and %d: want multiples of 16", d.X.Offset, d.SharedX.Offset)
	}
	m := d.Experts.Down
	if d.Shared.Rows != m.Rows {
		return nil, fmt.Errorf("shared expert of %d outputs beside experts of %d", d.Shared.Rows, m.Rows)
	}
	p, err := s.pipeline("moe_down", "experts_down", append(m.constants(0), d.Shared.constants(3)...)...)
	if err != nil {
		return nil, err
	}
	experts, place := d.Experts.binding(m, d.TopK)
	shared, sharedPlace := d.Shared.binding(d.Shared.Rows)
	k, rows := int64(d.TopK), int64(m.Rows)
	buffers := []metal.Binding{
		experts, shared, d.IDs.in(4 * k), d.Weights.in(4*k + 4), d.X.vectors(metal.In, d.TopK, m.Cols), d.SharedX.vectors(metal.In, 1, d.Shared.Cols),
	}
	buffers = append(buffers, d.Residual.bindings(d.Residual.H.inout(4*rows), rows)...)
	params := struct {
		Place, SharedPlace           placed
		Inner, Shared, Stride, Slots uint32
	}{place, sharedPlace, uint32(m.Cols), uint32(d.Shared.Cols), uint32(d.Experts.Stride / 16), uint32(d.TopK)}
	simdgroups := min(d.TopK+1, maxSimdgroups, p.MaxThreads()/metal.SimdWidth)
	return s.dispatch(p, buffers, params, metal.Line(m.Rows/downRows), metal.Line(metal.SimdWidth*simdgroups))
}
