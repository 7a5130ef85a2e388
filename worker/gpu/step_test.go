package gpu

import (
	"slices"
	"testing"

	"lilypad/protocol"
	"lilypad/worker/sample"
	"lilypad/worker/state"
)

// stepped computes an answer with the GPU's sampler.
func stepped(t testing.TB, s state.Sequence, token int32, p protocol.Sampling, n, vocab int) []int32 {
	t.Helper()
	logits := make([]float32, vocab)
	host := sample.New(vocab, func(int32) bool { return true })
	var ids []int32
	for range n {
		id, err := s.(state.Stepper).Step(token, p, logits)
		if err == nil && id < 0 {
			id, err = host.Choose(logits, p, s.Len())
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		token = id
	}
	return ids
}

// decoded computes the same answer one token at a time with the host's sampler.
func decoded(t testing.TB, s state.Sequence, token int32, p protocol.Sampling, n, vocab int) []int32 {
	t.Helper()
	host := sample.New(vocab, func(int32) bool { return true })
	var ids []int32
	for range n {
		id, err := host.Choose(forward(t, s, []int32{token}, 1, vocab), p, s.Len())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		token = id
	}
	return ids
}

var samplings = map[string]protocol.Sampling{
	"greedy": {}, "top k": {Temperature: 0.8, TopK: 20, TopP: 0.95, Seed: 42}, "everything": {Temperature: 1.1, Seed: 1 << 40, MinP: 0.01},
}

// TestStepsAheadGiveTheSameAnswer compares answers whose steps overlap with answers token by token, twice.
func TestStepsAheadGiveTheSameAnswer(t *testing.T) {
	m := cheap(t, Options{Context: 256})
	for name, p := range samplings {
		t.Run(name, func(t *testing.T) {
			prompt := someTokens(10, m.Vocab())
			answer := func(f func(testing.TB, state.Sequence, int32, protocol.Sampling, int, int) []int32) ([]int32, []float32) {
				s := newSequence(t, m)
				defer s.Close()
				forward(t, s, prompt, 0, m.Vocab())
				ids := f(t, s, 5, p, 12, m.Vocab())
				return ids, forward(t, s, []int32{7}, 1, m.Vocab())
			}
			want, wantNext := answer(decoded)
			for range 2 {
				if got, next := answer(stepped); !slices.Equal(got, want) || !slices.Equal(next, wantNext) {
					t.Errorf("tokens %v, want %v; states equal: %v", got, want, slices.Equal(next, wantNext))
				}
			}
		})
	}
}

// TestStepAheadIsDiscarded interrupts an answer, with a step in flight, by everything that is not its next step. State
// count and length of keys and values agree afterwards: both sequence and snapshot go on as if no step had been ahead.
func TestStepAheadIsDiscarded(t *testing.T) {
	m := cheap(t, Options{Context: 256})
	vocab := m.Vocab()
	prompt := someTokens(61, vocab) // the answer crosses into the second block
	first := newSequence(t, m)
	forward(t, first, prompt, 0, vocab)
	start, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(start.Close)
	resume := func(t *testing.T) *sequence {
		s, err := start.Resume()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s.(*sequence)
	}
	other := newSequence(t, m)
	for name, interrupt := range map[string]func(s *sequence, next int32) state.Sequence{
		"another token": func(s *sequence, _ int32) state.Sequence { return s },
		"another sampling": func(s *sequence, next int32) state.Sequence {
			stepped(t, s, next, samplings["top k"], 1, vocab)
			return s
		},
		"a chunk": func(s *sequence, _ int32) state.Sequence { forward(t, s, someTokens(5, vocab), 0, vocab); return s },
		"another sequence": func(s *sequence, _ int32) state.Sequence {
			stepped(t, other, 3, samplings["greedy"], 3, vocab)
			return s
		},
		"a new sequence": func(s *sequence, _ int32) state.Sequence { newSequence(t, m).Close(); return s },
		"memory that moves": func(s *sequence, _ int32) state.Sequence {
			for range m.states.recurrent.capacity {
				newSequence(t, m)
			}
			return s
		},
		"a fork": func(s *sequence, _ int32) state.Sequence {
			n, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			stepped(t, s, 9, samplings["greedy"], 3, vocab)
			f, err := n.Resume()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := resume(t)
			ids := stepped(t, s, 5, samplings["greedy"], 4, vocab)
			if m.runner.ahead.seq != s {
				t.Fatal("no step is ahead")
			}
			if s.len != len(prompt)+4 {
				t.Fatalf("%d tokens, want %d", s.len, len(prompt)+4)
			}
			before := s.len
			got := interrupt(s, ids[3])
			tokens := append([]int32{5}, ids[:3]...)
			switch name {
			case "another sampling":
				tokens = append(tokens, ids[3])
			case "a chunk":
				tokens = append(tokens, someTokens(5, vocab)...)
			}
			if got.Len() != len(prompt)+len(tokens) || got.Len() < before {
				t.Fatalf("%d tokens, want %d", got.Len(), len(prompt)+len(tokens))
			}
			fresh := resume(t)
			if name == "a chunk" {
				oneByOne(t, fresh, tokens[:4], vocab)
				forward(t, fresh, tokens[4:], 0, vocab)
			} else {
				oneByOne(t, fresh, tokens, vocab)
			}
			want := forward(t, fresh, []int32{11}, 1, vocab)
			if !slices.Equal(forward(t, got, []int32{11}, 1, vocab), want) {
				t.Error("the state is not that of the tokens")
			}
			fresh.Close()
			got.Close()
		})
	}
}
