package kernels_test

import (
	"math"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
)

// step is Step of common.metal.
type step struct{ token, position, slotIn, slotOut, table, produced uint32 }

func (s step) words() []uint32 {
	return []uint32{s.token, s.position, s.slotIn, s.slotOut, s.table, s.produced}
}

func stepOf(w []uint32) step { return step{w[0], w[1], w[2], w[3], w[4], w[5]} }

func TestSampleStep(t *testing.T) {
	tests := []struct {
		name          string
		before, after step
	}{
		{"sampled id is next", step{9, 41, 3, 5, 17, 2}, step{1, 42, 5, 3, 17, 3}},
		{"the ring goes round", step{9, 41, 3, 5, 17, 3*64 + 63}, step{1, 42, 5, 3, 17, 4 * 64}},
	}
	device, set := newSet(t, sim.Options{Check: true})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := runSample(device, set, []float32{0, 2, 1}, every, ref.Sampling{}, tt.before)
			if err != nil {
				t.Fatal(err)
			}
			if got.step != tt.after {
				t.Errorf("step %+v, want %+v", got.step, tt.after)
			}
			if got.id != 1 || got.flags != 0 {
				t.Errorf("result %d with flags %d, want 1 without", got.id, got.flags)
			}
			for i, w := range got.results {
				if i/2 != int(tt.before.produced%kernels.Results) && w != math.MaxUint32 {
					t.Errorf("word %d of the ring was written too: %d", i, w)
				}
			}
		})
	}
}
