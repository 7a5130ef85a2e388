package sample

// heapLimit is the largest count that is selected with a heap; above it sorting everything is no slower.
const heapLimit = 256

// negligible is the exponent below which a weight can't matter: the first weight is 1 and e^-17 < 2^-24, half a unit in
// the last place of any fp32 sum that holds it, so in descending order neither this weight nor any later one changes a sum.
const negligible = -17

// collect fills s.cand with the candidates in order of preference (logit descending, then id ascending) and their weights:
// the first topK of them, or all that can matter when topK is 0. Exactly topK are kept: of equal logits at the border
// the lowest ids, whereas Hugging Face keeps all of those.
func (s *Sampler) collect(logits []float32, top, temperature float32, topK int) {
	if topK > 0 && topK <= heapLimit {
		s.cand = s.largest(s.cand[:0], logits, topK)
	} else {
		s.cand = s.cand[:0]
		for _, r := range s.allowed {
			for i, l := range logits[r.from:r.to] {
				if exponent(l, top, temperature) >= negligible {
					s.cand = append(s.cand, candidate{id: r.from + int32(i), logit: l})
				}
			}
		}
		s.sort()
		if topK > 0 && topK < len(s.cand) {
			s.cand = s.cand[:topK]
		}
	}
	for i := range s.cand {
		c := &s.cand[i]
		c.weight = exp(exponent(c.logit, top, temperature))
	}
}

// exponent is (l-top)/temperature in fp32; 0 for the largest logit even when that is infinite.
func exponent(l, top, temperature float32) float32 {
	if l == top {
		return 0
	}
	return (l - top) / temperature
}

// largest appends the n allowed candidates with the largest logits to dst, in order of preference.
func (s *Sampler) largest(dst []candidate, logits []float32, n int) []candidate {
	for _, r := range s.allowed {
		for i, l := range logits[r.from:r.to] {
			c := candidate{id: r.from + int32(i), logit: l}
			if len(dst) < n {
				dst = append(dst, c)
				up(dst, len(dst)-1)
			} else if l > dst[0].logit { // an equal one has a higher id than all that are held
				dst[0] = c
				down(dst, 0)
			}
		}
	}
	for end := len(dst) - 1; end > 0; end-- { // heapsort: the worst goes last
		dst[0], dst[end] = dst[end], dst[0]
		down(dst[:end], 0)
	}
	return dst
}

// worse says that a comes after b in order of preference.
func worse(a, b candidate) bool { return a.logit < b.logit || a.logit == b.logit && a.id > b.id }

// up restores the heap, worst first, after h[i] was added.
func up(h []candidate, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !worse(h[i], h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// down restores the heap, worst first, after h[i] was replaced.
func down(h []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && worse(h[child+1], h[child]) {
			child++
		}
		if !worse(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
