package kernels_test

import (
	"testing"

	"lilypad/metal/kernels"
)

// TestLaneOrder: what eight lanes load at once, 4 elements of 8 neighbouring units of 32, lies in one piece, and no two
// elements of a tile share a place.
func TestLaneOrder(t *testing.T) {
	const first = 3 * 256
	seen := map[int]bool{}
	for unit := range 8 {
		for load := range 8 {
			for i := range 4 {
				at := kernels.LaneOrder(first + unit*32 + load*4 + i)
				if want := first + load*32 + unit*4 + i; at != want {
					t.Errorf("element %d of load %d of lane %d lies at %d, want %d", i, load, unit, at, want)
				}
				if seen[at] {
					t.Errorf("two elements lie at %d", at)
				}
				seen[at] = true
			}
		}
	}
	if got := kernels.VectorBytes(257); got != 2048 {
		t.Errorf("257 elements take %d bytes, want 2048", got)
	}
}
