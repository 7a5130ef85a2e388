package kernels

import (
	"fmt"
	"slices"

	"lilypad/metal"
)

// Grouped is the rows of a chunk's experts, as GroupRows orders them: (token, slot) pairs by expert, of one expert by token.
type Grouped struct {
	Count  int // tokens
	TopK   int
	Height int // rows of a tile: TileHeight
	Tokens Ref // u32 [Count*TopK]: the token of each row
	Tiles  Ref // 16 bytes for each of TileCount: {u32 expert, first row, rows, 0}
}

// TileHeight is the rows of a tile for count tokens with topK of experts each: half as many again as an expert gets on average,
// since what is over costs a tile of its own, which rebuilds all weights, and what a tile lacks nearly nothing.
func TileHeight(count, topK, experts int) int {
	return tileHeight(3 * count * topK / (2 * min(experts, count*topK)))
}

// TileCount is the most tiles of height rows that count tokens with topK of experts each can need: one not full for each
// expert.
func TileCount(count, topK, experts, height int) int {
	pairs := count * topK
	return (pairs+height-1)/height + min(experts, pairs)
}

// check refuses what the kernels of e can't run.
func (g Grouped) check(e Experts) error {
	if err := e.check(g.TopK); err != nil {
		return err
	}
	if g.Count < 1 || !slices.Contains([]int{16, 32, 64}, g.Height) {
		return fmt.Errorf("%d tokens in tiles of %d rows: want 16, 32 or 64", g.Count, g.Height)
	}
	return nil
}

// tiles binds the map.
func (g Grouped) tiles(e Experts) (metal.Binding, int) {
	n := TileCount(g.Count, g.TopK, e.Count, g.Height)
	return g.Tiles.in(16 * int64(n)), n
}

type groupedParams struct {
	W                     placed
	Outputs, Cols, Stride uint32
}

// ExpertsUpRows computes silu(gate x) * (up x) for each row of a group, x being its token's vector. Declared reads of
// weights are those of as many experts as there can be.
type ExpertsUpRows struct {
	Experts Experts
	Grouped Grouped
	X       Ref // f16 [Count][H], at a multiple of 16 bytes
	Out     Ref // f16 [Count*TopK][I], by row
}

// ExpertsUpRows prepares u.
func (s *Set) ExpertsUpRows(u ExpertsUpRows) (*metal.Dispatch, error) {
	return s.expertsUpRows(u, s.expertsTile(u.Grouped, u.Experts.GateUp.Rows))
}

func (s *Set) expertsUpRows(u ExpertsUpRows, t tile) (*metal.Dispatch, error) {
	m, g := u.Experts.GateUp, u.Grouped
	if err := g.check(u.Experts); err != nil {
		return nil, err
	}
	if u.X.Offset%16 != 0 || m.Cols%8 != 0 {
		return nil, fmt.Errorf("experts over vectors of %d numbers at byte %d: want multiples of 8 and 16", m.Cols, u.X.Offset)
	}
	p, err := s.pipeline("prefill_experts", "expert_gates_"+t.String(), append(m.constants(0), metal.Uint(3, endSwiGLU))...)
	if err != nil {
		return nil, err
	}
	pairs := g.Count * g.TopK
	experts, place := u.Experts.binding(m, min(u.Experts.Count, pairs))
	tiles, count := g.tiles(u.Experts)
	buffers := []metal.Binding{experts, tiles, g.Tokens.in(4 * int64(pairs)), u.X.in(2 * int64(g.Count) * int64(m.Cols)),
		u.Out.out(2 * int64(pairs) * int64(m.Rows/2))}
	params := groupedParams{place, uint32(m.Rows), uint32(m.Cols), uint32(u.Experts.Stride / 16)}
	groups := metal.Size{X: (m.Rows + t.outputs - 1) / t.outputs, Y: count, Z: 1}
	return s.dispatch(p, buffers, params, groups, metal.Line(tileThreads))
}

// ExpertsDownRows computes down x for each row of a group.
type ExpertsDownRows struct {
	Experts Experts
	Grouped Grouped
	X       Ref  // f16 [Count*TopK][I], by row, at a multiple of 16 bytes
	Out     Ref  // OutType [Count*TopK][H], by row, at a multiple of 16 bytes
	OutType Type // F16 or F32
}

// ExpertsDownRows prepares d.
func (s *Set) ExpertsDownRows(d ExpertsDownRows) (*metal.Dispatch, error) {
	return s.expertsDownRows(d, s.expertsTile(d.Grouped, d.Experts.Down.Rows))
}

func (s *Set) expertsDownRows(d ExpertsDownRows, t tile) (*metal.Dispatch, error) {
	m, g := d.Experts.Down, d.Grouped
	if err := g.check(d.Experts); err != nil {
		return nil, err
	}
	if d.X.Offset%16 != 0 || d.Out.Offset%16 != 0 || d.OutType == BF16 {
		return nil, fmt.Errorf("experts' vectors at byte %d, %v outputs at byte %d: want multiples of 16, and f16 or f32", d.X.Offset, d.OutType, d.Out.Offset)
	}
	end := uint32(endF16)
	if d.OutType == F32 {
		end = endF32
	}
	p, err := s.pipeline("prefill_experts", "expert_downs_"+t.String(), append(m.constants(0), metal.Uint(3, end))...)
	if err != nil {
		return nil, err
	}
	pairs := g.Count * g.TopK
	experts, place := d.Experts.binding(m, min(d.Experts.Count, pairs))
	tiles, count := g.tiles(d.Experts)
	buffers := []metal.Binding{experts, tiles, d.X.in(2 * int64(pairs) * int64(m.Cols)),
		d.Out.out(int64(d.OutType.Bytes()) * int64(pairs) * int64(m.Rows))}
	params := groupedParams{place, uint32(m.Rows), uint32(m.Cols), uint32(d.Experts.Stride / 16)}
	groups := metal.Size{X: (m.Rows + t.outputs - 1) / t.outputs, Y: count, Z: 1}
	return s.dispatch(p, buffers, params, groups, metal.Line(tileThreads))
}
