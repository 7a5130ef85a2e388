package state_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lilypad/protocol"
	"lilypad/worker/state"
	"lilypad/worker/state/statetest"
)

func acquire(t interface {
	Helper()
	Fatal(...any)
}, s *state.Store, tokens []int32, schedule ...protocol.Segment) (*state.Lease, protocol.Started) {
	t.Helper()
	l, started, err := s.Acquire(tokens, schedule)
	if err != nil {
		t.Fatal(err)
	}
	return l, started
}

func prefill(t interface {
	Helper()
	Fatal(...any)
}, l *state.Lease, tokens ...int32) {
	t.Helper()
	if err := l.Prefill(tokens, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestMisses(t *testing.T) {
	b := &statetest.Backend{Vocab: 4}
	s := state.NewStore(b, 0)
	defer s.Close()
	l, started := acquire(t, s, []int32{1, 2, 3, 4, 5, 6})
	if started.Cached != 0 || started.Miss != "new" {
		t.Fatalf("first request: %+v, want nothing cached and miss new", started)
	}
	prefill(t, l, 1, 2, 3)
	if err := l.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	prefill(t, l, 4, 5, 6)
	l.Release()

	tests := []struct {
		name   string
		tokens []int32
		cached int
		miss   string
	}{
		{"extends the idle state", []int32{1, 2, 3, 4, 5, 6, 7}, 6, ""},
		{"extends it by more", []int32{1, 2, 3, 4, 5, 6, 7, 8}, 6, "new"},
		{"same again, one token must be computed", []int32{1, 2, 3, 4, 5, 6}, 3, "no checkpoint"},
		{"branches after the checkpoint", []int32{1, 2, 3, 4, 9, 9, 9}, 3, "no checkpoint"},
		{"branches at the checkpoint", []int32{1, 2, 3, 9, 9, 9, 9}, 3, "diverged"},
		{"all but the last", []int32{1, 2, 3, 9}, 3, ""},
		{"ends at the checkpoint", []int32{1, 2, 3}, 0, "no checkpoint"},
		{"something else", []int32{8, 2, 3}, 0, "new"},
		{"one token", []int32{1}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, started := acquire(t, s, tt.tokens)
			if started.Cached != tt.cached || started.Miss != tt.miss || l.Len() != tt.cached || state.Length(started.Schedule) != tt.cached {
				t.Errorf("%+v, want %d cached and miss %q", started, tt.cached, tt.miss)
			}
			if tt.cached == 6 {
				l.Release() // as it was
			} else {
				l.Discard()
			}
		})
	}
}

func TestNumericsMiss(t *testing.T) {
	chunk := func(n int) protocol.Segment { return protocol.Segment{Kind: protocol.Prefill, N: n} }
	steps := func(n int) protocol.Segment { return protocol.Segment{Kind: protocol.Decode, N: n} }
	tests := []struct {
		name     string
		chunky   bool
		schedule []protocol.Segment
		cached   int
		miss     string
	}{
		{"no schedule", true, nil, 5, ""},
		{"the same", true, []protocol.Segment{chunk(2), chunk(1), steps(2)}, 5, ""},
		{"longer run of steps", true, []protocol.Segment{chunk(2), chunk(1), steps(3)}, 5, ""},
		{"shorter schedule", true, []protocol.Segment{chunk(2)}, 5, ""},
		{"other chunks", true, []protocol.Segment{chunk(3), steps(2)}, 0, "numerics"},
		{"a chunk instead of steps", true, []protocol.Segment{chunk(2), chunk(1), chunk(2)}, 0, "numerics"},
		{"a backend independent of chunking", false, []protocol.Segment{chunk(3), steps(2)}, 5, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := state.NewStore(&statetest.Backend{Vocab: 4, Chunky: tt.chunky}, 0)
			defer s.Close()
			l, _ := acquire(t, s, []int32{1, 2, 3, 4, 5, 6})
			prefill(t, l, 1, 2)
			prefill(t, l, 3)
			for _, id := range []int32{4, 5} {
				if err := l.Decode(id, nil); err != nil {
					t.Fatal(err)
				}
			}
			l.Release()
			_, started := acquire(t, s, []int32{1, 2, 3, 4, 5, 6}, tt.schedule...)
			if started.Cached != tt.cached || started.Miss != tt.miss {
				t.Fatalf("%+v, want %d cached and miss %q", started, tt.cached, tt.miss)
			}
			want := []protocol.Segment{chunk(2), chunk(1), steps(2)}
			if tt.cached > 0 {
				if diff := cmp.Diff(want, started.Schedule); diff != "" {
					t.Errorf("schedule of the cached tokens: %s", diff)
				}
			}
		})
	}
}

func TestEviction(t *testing.T) {
	const conversation = 2*statetest.StateBytes + 2*statetest.BlockBytes // live, one checkpoint, two blocks
	b := &statetest.Backend{Vocab: 4, Limit: 2 * conversation}
	s := state.NewStore(b, b.Limit)
	defer s.Close()
	talk := func(first int32) protocol.Started {
		tokens := slices.Repeat([]int32{first}, 2*statetest.Block)
		l, started := acquire(t, s, append(slices.Clone(tokens), 99))
		if l.Len() == 0 {
			prefill(t, l, tokens[:statetest.Block]...)
			if err := l.Checkpoint(true); err != nil {
				t.Fatal(err)
			}
			prefill(t, l, tokens[statetest.Block:]...)
		}
		l.Release()
		return started
	}
	for _, first := range []int32{1, 2, 1, 3} {
		talk(first)
	}
	if got := talk(1); got.Cached != 2*statetest.Block {
		t.Errorf("used last but one: %+v, want all cached", got)
	}
	if got := talk(2); got.Cached != 0 || got.Miss != "evicted" {
		t.Errorf("used longest ago: %+v, want nothing cached and miss evicted", got)
	}
}

// TestThinning: of one conversation the checkpoints made in passing go before the wanted and the newest one.
func TestThinning(t *testing.T) {
	b := &statetest.Backend{Vocab: 4, Limit: 6*statetest.StateBytes + 6*statetest.BlockBytes}
	s := state.NewStore(b, b.Limit)
	defer s.Close()
	tokens := make([]int32, 6*statetest.Block)
	l, _ := acquire(t, s, tokens)
	for i := range 6 {
		prefill(t, l, tokens[i*statetest.Block:(i+1)*statetest.Block]...)
		if err := l.Checkpoint(i == 1 || i == 3); err != nil {
			t.Fatal(err)
		}
	}
	// There is room for the live state and five checkpoints, so the one at 1 went; the first fork then takes that at 3.
	var got []int
	for i := 6; i >= 1; i-- {
		f, started := acquire(t, s, append(slices.Clone(tokens[:i*statetest.Block]), 1))
		f.Discard()
		got = append(got, started.Cached/statetest.Block)
	}
	if want := []int{6, 5, 4, 2, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("cached blocks by length 6 to 1: %v, want %v", got, want)
	}
	l.Release()
}

func TestNoMemory(t *testing.T) {
	b := &statetest.Backend{Vocab: 4, Limit: statetest.StateBytes*2 + statetest.BlockBytes*3}
	s := state.NewStore(b, b.Limit)
	defer s.Close()
	idle, _ := acquire(t, s, []int32{7, 7})
	prefill(t, idle, 7)
	idle.Release()

	_, _, err := s.Acquire(make([]int32, 1000), nil)
	var e *protocol.Error
	if protocol.CodeOf(err) != protocol.CodeMemory {
		t.Fatalf("error %v, want one of CodeMemory", err)
	}
	e = err.(*protocol.Error)
	if e.Have != b.Limit || e.Want != statetest.StateBytes+1000*statetest.TokenBytes {
		t.Errorf("have %d, want %d of the error", e.Have, e.Want)
	}
	if n, _ := s.Counts(); n != 1 {
		t.Errorf("%d sequences after a request that can never fit, want the idle one", n)
	}

	one, _ := acquire(t, s, []int32{1, 1})
	prefill(t, one, make([]int32, 2*statetest.Block)...)
	err = one.Prefill(make([]int32, 3*statetest.Block), 0, nil)
	if protocol.CodeOf(err) != protocol.CodeMemory {
		t.Fatalf("error %v, want one of CodeMemory", err)
	}
	if one.Len() != 2*statetest.Block {
		t.Errorf("%d tokens after growth failed, want %d", one.Len(), 2*statetest.Block)
	}
	prefill(t, one, make([]int32, statetest.Block)...) // still good
	one.Release()
}

func TestSchedules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.Custom(func(t *rapid.T) protocol.Segment {
			return protocol.Segment{Kind: rapid.SampledFrom([]protocol.SegmentKind{protocol.Prefill, protocol.Decode}).Draw(t, "kind"), N: rapid.IntRange(1, 3).Draw(t, "n")}
		})
		a, b := rapid.SliceOfN(segment, 0, 5).Draw(rt, "a"), rapid.SliceOfN(segment, 0, 5).Draw(rt, "b")
		units := func(schedule []protocol.Segment) (out []int) { // length of each chunk, 0 for a decode step
			for _, s := range schedule {
				if s.Kind == protocol.Prefill {
					out = append(out, s.N)
				} else {
					out = append(out, make([]int, s.N)...)
				}
			}
			return out
		}
		x, y := units(a), units(b)
		n := min(len(x), len(y))
		if got, want := state.Agree(a, b), slices.Equal(x[:n], y[:n]); got != want {
			rt.Errorf("Agree(%v, %v) = %v, want %v", a, b, got, want)
		}
		var joined []protocol.Segment
		for _, s := range a {
			joined = state.Append(joined, s)
		}
		if !slices.Equal(units(joined), x) || state.Length(joined) != state.Length(a) {
			rt.Errorf("%v appended one by one is %v", a, joined)
		}
	})
}
