package gpu

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/state"
)

// cheap is a model that takes little time, for tests of states.
func cheap(t testing.TB, opt Options) *Model {
	ck := &checkpoint.Checkpoint{Name: "cheap", Shape: small()}
	ck.Shape.Layers = ck.Shape.Layers[1:3]
	ck.Shape.Experts, ck.Shape.ExpertsPerToken = 4, 2
	fillShape(ck, published)
	return newModel(t, openDevice(t), ck, opt)
}

func wantError(t *testing.T, err error, code protocol.Code, have, want int64) {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code || e.Have != have || e.Want != want {
		t.Errorf("error %v (%+v), want code %d with %d and %d", err, e, code, have, want)
	}
}

// TestStates forks, grows and drops sequences at random; each must predict what a sequence of its own does that computed
// the same tokens in the same units, whatever moved in memory meanwhile.
func TestStates(t *testing.T) {
	m := cheap(t, Options{Context: 300})
	vocab := m.Vocab()
	type held struct {
		seq   state.Sequence
		snap  state.Snapshot
		units [][]int32
	}
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; runs > 25 { // each takes a good part of a second here
			return
		}
		var list []held
		drop := func(i int) {
			if list[i].seq != nil {
				list[i].seq.Close()
			} else {
				list[i].snap.Close()
			}
			list = slices.Delete(list, i, i+1)
		}
		for range rapid.IntRange(3, 8).Draw(rt, "steps") {
			if len(list) == 0 || len(list) < 6 && rapid.IntRange(0, 3).Draw(rt, "new") == 0 {
				s, err := m.New()
				if err != nil {
					rt.Fatal(err)
				}
				list = append(list, held{seq: s})
			}
			h := &list[rapid.IntRange(0, len(list)-1).Draw(rt, "which")]
			switch {
			case h.snap != nil:
				s, err := h.snap.Resume()
				if err != nil {
					rt.Fatal(err)
				}
				list = append(list, held{seq: s, units: slices.Clone(h.units)})
			case rapid.IntRange(0, 3).Draw(rt, "snapshot") == 0:
				n, err := h.seq.Snapshot()
				if err != nil {
					rt.Fatal(err)
				}
				list = append(list, held{snap: n, units: slices.Clone(h.units)})
			default:
				more := rapid.SliceOfN(rapid.Int32Range(0, int32(vocab-1)), 1, 20).Draw(rt, "tokens")
				got := forward(t, h.seq, more, 1, vocab)
				h.units = append(h.units, more)
				fresh := newSequence(t, m)
				var want []float32
				for _, unit := range h.units {
					want = forward(t, fresh, unit, 1, vocab)
				}
				if !slices.Equal(got, want) || h.seq.Len() != fresh.Len() {
					rt.Fatalf("%d tokens of a sequence with %d of its own predict otherwise", fresh.Len(), len(more))
				}
				fresh.Close()
			}
			if len(list) > 3 && rapid.Bool().Draw(rt, "drop") {
				drop(rapid.IntRange(0, len(list)-1).Draw(rt, "dropped"))
			}
		}
		for len(list) > 0 {
			drop(0)
		}
		if m.Bytes() != 0 {
			rt.Fatalf("%d bytes left", m.Bytes())
		}
	})
}

// TestFailedGrowthLosesNothing meets both bounds and goes on where it was.
func TestFailedGrowthLosesNothing(t *testing.T) {
	free := cheap(t, Options{Context: 150})
	block, slot := free.states.blockBytes(), free.SnapshotBytes()
	tokens := someTokens(100, free.Vocab())
	alone := newSequence(t, free)
	forward(t, alone, tokens[:60], 0, free.Vocab())
	want := forward(t, alone, tokens[60:], 1, free.Vocab())
	alone.Close()

	m := cheap(t, Options{Context: 150, Limit: 2*slot + 2*block + 4})
	s := newSequence(t, m)
	forward(t, s, tokens[:60], 1, m.Vocab())
	wantError(t, s.Grow(91), protocol.CodeContextLength, 151, 150)
	wantError(t, s.Grow(90), protocol.CodeMemory, block+4, 2*block)
	wantError(t, s.Forward(tokens[:90], 0, nil), protocol.CodeMemory, block+4, 2*block)
	if s.Len() != 60 || m.Bytes() != 2*slot+block || s.Bytes() != m.Bytes() {
		t.Errorf("%d tokens and %d bytes after refusals, want 60 and %d", s.Len(), m.Bytes(), 2*slot+block)
	}
	if got := forward(t, s, tokens[60:], 1, m.Vocab()); !slices.Equal(got, want) {
		t.Error("logits differ after refusals")
	}
	s.Close()
	s.Close()
}

// TestBadRequestsChangeNothing sends what Forward refuses.
func TestBadRequestsChangeNothing(t *testing.T) {
	m := cheap(t, Options{})
	s := newSequence(t, m)
	logits := make([]float32, m.Vocab())
	for name, f := range map[string]func() error{
		"id too large":     func() error { return s.Forward([]int32{0, int32(m.Vocab())}, 1, logits) },
		"negative id":      func() error { return s.Forward([]int32{-1}, 1, logits) },
		"more rows":        func() error { return s.Forward([]int32{1}, 2, make([]float32, 2*m.Vocab())) },
		"negative rows":    func() error { return s.Forward([]int32{1}, -1, logits) },
		"too short buffer": func() error { return s.Forward([]int32{1}, 1, logits[1:]) },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s.Len() != 0 || s.Bytes() != 2*m.SnapshotBytes() {
		t.Errorf("%d tokens and %d bytes after refusals, want none and %d", s.Len(), s.Bytes(), 2*m.SnapshotBytes())
	}
}
