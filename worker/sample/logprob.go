package sample

import (
	"math"

	"lilypad/protocol"
)

// Scored is an id with its log-probability.
type Scored struct {
	ID      int32
	Logprob float32
}

// Logprobs returns the natural log-probability of id, untempered and over all ids that have a token, and appends the n
// most probable ids to top, by log-probability descending and then id ascending. An id without a token has minus
// infinity. Errors are those of Choose.
func (s *Sampler) Logprobs(logits []float32, id int32, n int, top []Scored) (float32, []Scored, error) {
	best, err := s.best(logits)
	if err != nil {
		return 0, top, err
	}
	if id < 0 || int(id) >= s.vocab {
		return 0, top, protocol.Errorf(protocol.CodeInternal, "scoring token %d of a vocabulary of %d", id, s.vocab)
	}
	norm := s.logSum(logits, best.logit)
	logprob := func(l float32) float32 { return float32(float64(exponent(l, best.logit, 1)) - norm) }
	if n > 0 {
		s.cand = s.largest(s.cand[:0], logits, n)
		for _, c := range s.cand {
			top = append(top, Scored{c.id, logprob(c.logit)})
		}
	}
	if !s.has(id) {
		return float32(math.Inf(-1)), top, nil
	}
	return logprob(logits[id]), top, nil
}

// logSum is log(sum(exp(l-top))) over the allowed logits, in fp64.
func (s *Sampler) logSum(logits []float32, top float32) float64 {
	const nothing = -40 // 2^20 ids of this exponent together change no fp32 result
	sum := 0.0
	for _, r := range s.allowed {
		for _, l := range logits[r.from:r.to] {
			if e := exponent(l, top, 1); e > nothing {
				sum += math.Exp(float64(e))
			}
		}
	}
	return math.Log(sum)
}

// has says whether id has a token.
func (s *Sampler) has(id int32) bool {
	for _, r := range s.allowed {
		if id < r.to {
			return id >= r.from
		}
	}
	return false
}
