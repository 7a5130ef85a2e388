package worker

import (
	"slices"
	"testing"

	"lilypad/protocol"
	"lilypad/worker/sample"
	"lilypad/worker/state"
	"lilypad/worker/state/statetest"
)

// steppingBackend samples by itself, but leaves every third token to the host.
type steppingBackend struct {
	*statetest.Backend
	steps, left int
}

type steppingSequence struct {
	state.Sequence
	backend *steppingBackend
	sampler *sample.Sampler
}

func (b *steppingBackend) New() (state.Sequence, error) {
	s, err := b.Backend.New()
	return &steppingSequence{s, b, sample.New(testVocab, demoTokenizer.Has)}, err
}

func (s *steppingSequence) Step(token int32, p protocol.Sampling, logits []float32) (int32, error) {
	if err := s.Forward([]int32{token}, 1, logits); err != nil {
		return -1, err
	}
	if s.backend.steps++; s.backend.steps%3 == 0 {
		s.backend.left++
		return -1, nil
	}
	id, err := s.sampler.Choose(logits, p, s.Len())
	clear(logits)
	return id, err
}

// TestBackendSamples: a backend that samples gives the same answer as the host, with and without log-probabilities, which
// are always the host's.
func TestBackendSamples(t *testing.T) {
	for name, sampling := range map[string]protocol.Sampling{"greedy": {}, "sampled": {Temperature: 0.9, Seed: 7, TopK: 40}} {
		t.Run(name, func(t *testing.T) {
			req := prompt(30, 5, 40)
			req.Sampling = sampling
			plain := &statetest.Backend{}
			want := ask(t, fake(t, plain, Options{}, protocol.LoadRequest{}), req)

			b := &steppingBackend{Backend: &statetest.Backend{}}
			e := fakeOver(t, b, b.Backend, Options{}, protocol.LoadRequest{})
			got := ask(t, e, req)
			if !slices.Equal(got.ids(), want.ids()) || got.done != want.done || !slices.Equal(got.computed, want.computed) {
				t.Errorf("tokens %v, want %v", got.ids(), want.ids())
			}
			if b.steps != 39 || b.left != 13 {
				t.Errorf("%d steps, %d left to the host, want 39 and 13", b.steps, b.left)
			}
			req.Logprobs = true
			if got := ask(t, e, req); !slices.Equal(got.ids(), want.ids()) || b.steps != 39 {
				t.Errorf("with log-probabilities: tokens %v after %d steps, want %v and none", got.ids(), b.steps-39, want.ids())
			}
		})
	}
}
