package kernels

import "lilypad/metal"

// vectorTile is the elements that lane order transposes at once.
const vectorTile = 256

// LaneOrder is where element c of a vector that matrices are multiplied with lies: lane_order in common.metal, which says
// why. It swaps bits 2 to 4 of c with bits 5 to 7, so it is its own inverse.
func LaneOrder(c int) int { return c&^0xfc | c>>3&0x1c | c<<3&0xe0 }

// VectorBytes is the room of a vector of n elements in lane order: fp32, in whole tiles of 256 elements, of which some may
// never be written nor read.
func VectorBytes(n int) int64 { return 4 * padded(int64(n), vectorTile) }

// vectors binds count vectors of n elements in lane order, one after the other, all of whose elements the kernel reads or
// writes.
func (r Ref) vectors(access metal.Access, count, n int) metal.Binding {
	b := metal.Binding{Buffer: r.Buffer, Offset: r.Offset, Length: int64(count) * VectorBytes(n), Access: access}
	if used := 4 * int64(count) * int64(n); access == metal.In {
		b.Reads = used
	} else {
		b.Writes = used
	}
	return b
}
