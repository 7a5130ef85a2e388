// Package sample turns logits into tokens and log-probabilities. A token is a pure function of logits, parameters, seed and
// position. It must not know where logits come from, and must not import a backend.
package sample

import (
	"math"

	"lilypad/protocol"
)

// Sampler chooses tokens from rows of logits. It owns scratch memory, so it serves one goroutine and allocates nothing
// per token.
type Sampler struct {
	vocab   int
	allowed []span // ids that have a token
	cand    []candidate
	scratch []candidate // of the radix sort
}

// span is the ids in [from, to).
type span struct{ from, to int32 }

// candidate is an id in order of preference, with exp((logit-max)/temperature) once it is known.
type candidate struct {
	id     int32
	logit  float32
	weight float32
}

// New makes a Sampler for rows of vocab logits. Ids for which has is false are never chosen and have no share in any
// log-probability.
func New(vocab int, has func(id int32) bool) *Sampler {
	s := &Sampler{vocab: vocab}
	for id := int32(0); int(id) < vocab; id++ {
		if !has(id) {
			continue
		}
		if n := len(s.allowed); n > 0 && s.allowed[n-1].to == id {
			s.allowed[n-1].to++
		} else {
			s.allowed = append(s.allowed, span{id, id + 1})
		}
	}
	return s
}

// best is the largest allowed logit and the lowest id that has it.
func (s *Sampler) best(logits []float32) (candidate, error) {
	if len(logits) != s.vocab {
		return candidate{}, protocol.Errorf(protocol.CodeInternal, "sampling: %d logits, want %d", len(logits), s.vocab)
	}
	top := candidate{id: -1, logit: float32(math.Inf(-1))}
	for _, r := range s.allowed {
		for i, l := range logits[r.from:r.to] {
			if l > top.logit {
				top.id, top.logit = r.from+int32(i), l
			} else if l != l {
				return candidate{}, protocol.Errorf(protocol.CodeInternal, "sampling: the logit of token %d is not a number", r.from+int32(i))
			}
		}
	}
	if top.id < 0 {
		return candidate{}, protocol.Errorf(protocol.CodeInternal, "sampling: none of the %d logits is above minus infinity", s.vocab)
	}
	return top, nil
}

// Choose returns the token for the given absolute position (the number of tokens before it). Filters act in Hugging
// Face's order: temperature, top-k, top-p, min-p. Logits that are no number, or none above minus infinity, are an error
// of protocol.CodeInternal.
func (s *Sampler) Choose(logits []float32, p protocol.Sampling, position int) (int32, error) {
	top, err := s.best(logits)
	if err != nil || p.Temperature <= 0 || p.TopK == 1 {
		return top.id, err
	}
	s.collect(logits, top.logit, p.Temperature, p.TopK)
	kept := cut(s.cand, p.TopP, p.MinP)
	return draw(kept, uniform(p.Seed, position, p.Choice, 0)), nil
}

// cut keeps the candidates that top-p and then min-p leave. cand is in order of preference and its first weight is 1.
// Top-p keeps the shortest run whose probability reaches topP, as Hugging Face does, and so at least one.
func cut(cand []candidate, topP, minP float32) []candidate {
	if topP > 0 && topP < 1 {
		limit, sum := topP*total(cand), float32(0)
		for i := range cand {
			if sum >= limit && i > 0 {
				cand = cand[:i]
				break
			}
			sum += cand[i].weight
		}
	}
	if minP > 0 {
		n := 1
		for n < len(cand) && cand[n].weight >= minP {
			n++
		}
		cand = cand[:n]
	}
	return cand
}

// draw returns the first candidate whose cumulative weight is above u times the total, u in [0, 1). Sums are fp32 in order
// of preference. Rounding can't leave it without one: u*total < total, the last cumulative weight.
func draw(cand []candidate, u float32) int32 {
	limit, sum := u*total(cand), float32(0)
	for i := range cand {
		if sum += cand[i].weight; sum > limit {
			return cand[i].id
		}
	}
	panic("BUG: the weights of the candidates do not reach their own total")
}

// total is the fp32 sum of the weights in order.
func total(cand []candidate) float32 {
	sum := float32(0)
	for i := range cand {
		sum += cand[i].weight
	}
	return sum
}
