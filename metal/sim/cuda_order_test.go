package sim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lilypad/metal"
)

// Whatever two dispatches of different levels conflict, the later one comes after the earlier; and no edge is there that
// others make superfluous, or that joins dispatches of one level.
func TestProducers(t *testing.T) {
	buffers := [3]*metal.Buffer{{}, {}, {}}
	rapid.Check(t, func(t *rapid.T) {
		ops := make([]ordered, rapid.IntRange(0, 90).Draw(t, "ops"))
		level := 0
		for i := range ops {
			level += rapid.IntRange(0, 1).Draw(t, "barrier")
			ops[i].level = level
			for range rapid.IntRange(0, 3).Draw(t, "ranges") {
				from := rapid.Int64Range(0, 20).Draw(t, "from")
				ops[i].ranges = append(ops[i].ranges, touched{
					buffer: buffers[rapid.IntRange(0, 2).Draw(t, "buffer")], from: from,
					to: from + rapid.Int64Range(1, 6).Draw(t, "length"), write: rapid.Bool().Draw(t, "write"),
				})
			}
		}
		edges := producers(ops)
		after := make([]map[int]bool, len(ops))
		for i := range ops {
			after[i] = map[int]bool{}
			for _, j := range edges[i] {
				after[i][j] = true
				for k := range after[j] {
					after[i][k] = true
				}
			}
			for j := range i {
				if ops[j].level < ops[i].level && ops[i].conflicts(&ops[j]) && !after[i][j] {
					t.Fatalf("%d does not come after %d", i, j)
				}
			}
			for _, j := range edges[i] {
				if ops[j].level >= ops[i].level || !ops[i].conflicts(&ops[j]) {
					t.Fatalf("edge from %d to %d without need", j, i)
				}
				if slices.ContainsFunc(edges[i], func(k int) bool { return after[k][j] }) {
					t.Fatalf("edge from %d to %d is superfluous", j, i)
				}
			}
		}
	})
}

func TestConflictsNeedsAWriteAndAnOverlap(t *testing.T) {
	a, b := &metal.Buffer{}, &metal.Buffer{}
	for _, c := range []struct {
		name       string
		one, other touched
		want       bool
	}{
		{"write then read", touched{a, 0, 8, true}, touched{a, 4, 12, false}, true},
		{"read then write", touched{a, 0, 8, false}, touched{a, 7, 8, true}, true},
		{"two reads", touched{a, 0, 8, false}, touched{a, 0, 8, false}, false},
		{"adjacent", touched{a, 0, 8, true}, touched{a, 8, 16, true}, false},
		{"other buffer", touched{a, 0, 8, true}, touched{b, 0, 8, true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, other := ordered{0, []touched{c.one}}, ordered{1, []touched{c.other}}
			if got := one.conflicts(&other); got != c.want {
				t.Errorf("conflict %v, want %v", got, c.want)
			}
		})
	}
}
