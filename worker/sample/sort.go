package sample

import (
	"cmp"
	"math"
	"slices"
)

const (
	digitBits = 11 // three passes for 32 bits
	digits    = 1 << digitBits
	smallSort = 512 // below this many comparing is faster than counting
)

// sort puts s.cand, which is in ascending order of ids, in order of preference: a stable radix sort by descending logit,
// so that equal logits stay in order of their ids.
func (s *Sampler) sort() {
	if len(s.cand) < smallSort {
		slices.SortFunc(s.cand, func(a, b candidate) int {
			if c := cmp.Compare(b.logit, a.logit); c != 0 {
				return c
			}
			return cmp.Compare(a.id, b.id)
		})
		return
	}
	if cap(s.scratch) < len(s.cand) {
		s.scratch = make([]candidate, s.vocab)
	}
	from, to := s.cand, s.scratch[:len(s.cand)]
	for shift := 0; shift < 32; shift += digitBits {
		var start [digits]int32
		for i := range from {
			start[descending(from[i].logit)>>shift&(digits-1)]++
		}
		sum := int32(0)
		for d, n := range start {
			start[d], sum = sum, sum+n
		}
		for i := range from {
			d := descending(from[i].logit) >> shift & (digits - 1)
			to[start[d]] = from[i]
			start[d]++
		}
		from, to = to, from
	}
	s.cand, s.scratch = from, to
}

// descending maps logits to integers in the opposite order; -0 and 0 are equal.
func descending(l float32) uint32 {
	b := math.Float32bits(l + 0) // -0 + 0 is 0
	if b>>31 == 1 {
		return b
	}
	return ^b &^ (1 << 31)
}
