package kernels_test

import (
	"math"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
)

// step is Step of common.metal.
type step struct{ token, position, slotIn, slotOut, table, next, fed, produced uint32 }

func (s step) words() []uint32 {
	return []uint32{s.token, s.position, s.slotIn, s.slotOut, s.table, s.next, s.fed, s.produced}
}

func stepOf(w []uint32) step { return step{w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]} }

func TestSampleStep(t *testing.T) {
	tests := []struct {
		name          string
		before, after step
	}{
		{"sampled id is next", step{9, 41, 3, 5, 17, 0, 0, 2}, step{1, 42, 5, 3, 17, 0, 0, 3}},
		{"the feed goes first", step{9, 41, 3, 5, 17, 1, 3, 0}, step{77, 42, 5, 3, 17, 2, 3, 1}},
		{"the feed is at its end", step{9, 41, 3, 5, 17, 3, 3, 0}, step{1, 42, 5, 3, 17, 3, 3, 1}},
		{"the ring goes round", step{9, 41, 3, 5, 17, 0, 0, 3*64 + 63}, step{1, 42, 5, 3, 17, 0, 0, 4 * 64}},
	}
	device, set := newSet(t, sim.Options{Check: true})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := runSample(device, set, []float32{0, 2, 1}, every, ref.Sampling{}, tt.before, []uint32{66, 77, 88})
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

func TestAdvance(t *testing.T) {
	tests := []struct {
		name          string
		before, after step
		exact         bool // reads and writes what is declared
	}{
		{"feed", step{9, 41, 3, 5, 17, 1, 3, 4}, step{77, 42, 5, 3, 17, 2, 3, 4}, true},
		{"end of the feed", step{9, 41, 3, 5, 17, 3, 3, 4}, step{9, 42, 5, 3, 17, 3, 3, 4}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			device, set := newSet(t, sim.Options{Check: true, Exact: tt.exact})
			a := newArena(t, device, 1<<12, 1)
			at, feed := a.PutUints(tt.before.words()...), a.PutUints(66, 77, 88)
			op, err := set.Advance(kernels.Advance{Step: at, Feed: feed, Fed: 3})
			runFixture(t, device, a, op, err)
			if got := stepOf(a.Uints(at, 8)); got != tt.after {
				t.Errorf("step %+v, want %+v", got, tt.after)
			}
		})
	}
}
