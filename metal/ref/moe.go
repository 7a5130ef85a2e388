package ref

import (
	"math"
	"slices"
)

// Route returns the topK experts of the largest logits, of equal ones the lowest ids, in ascending order of ids; and their
// share of the softmax over all logits, normalised to a sum of 1 if asked, followed by the sigmoid of the shared expert's
// logit. A logit that is no number is the least of all and makes every share one.
func Route(logits []float32, shared float32, topK int, normalise bool) ([]uint32, []float32) {
	ids := make([]uint32, len(logits))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return descending(logits[a], logits[b]) })
	ids = ids[:topK]
	high := logits[ids[0]]
	all := 0.0
	for _, l := range logits {
		all += math.Exp(float64(l - high))
	}
	total := 0.0
	for _, id := range ids {
		total += math.Exp(float64(logits[id]-high)) / all
	}
	if !normalise {
		total = 1
	}
	slices.Sort(ids)
	weights := make([]float32, 0, topK+1)
	for _, id := range ids {
		weights = append(weights, float32(math.Exp(float64(logits[id]-high))/all/total))
	}
	return ids, append(weights, Sigmoid(shared))
}

// descending compares logits for a sort that puts the largest first and those that are no number last.
func descending(a, b float32) int {
	switch {
	case a > b || a == a && b != b:
		return -1
	case a < b || a != a && b == b:
		return 1
	}
	return 0
}

// ExpertsUp returns, for the expert of each slot, silu(n*gate x) * (n*up x) in bf16: [slots][I]. gateUp[e] is expert e's
// [2*I, len(x)], the gate's rows first, x the gained vector and n its missing factor, 1/rms.
func ExpertsUp(ids []uint32, gateUp [][]float32, x []uint16, n float32) []uint16 {
	var out []uint16
	for _, id := range ids {
		w := gateUp[id]
		inner := len(w) / len(x) / 2
		for i := range inner {
			gate := dot(w[i*len(x):(i+1)*len(x)], x)
			up := dot(w[(inner+i)*len(x):(inner+i+1)*len(x)], x)
			out = append(out, Bfloat(SiLU(float32(gate)*n)*(float32(up)*n)))
		}
	}
	return out
}

// ExpertsDown adds to the residual h, in place, the sum over slots of weights[slot] * down[ids[slot]] x[slot] and after it
// the last weight times shared sharedX. down[e] is [len(h), len(x)/slots].
func ExpertsDown(h []float32, ids []uint32, weights []float32, down [][]float32, x []uint16, shared []float32, sharedX []uint16) {
	inner := len(x) / len(ids)
	for r := range h {
		sum := float32(0)
		for slot, id := range ids {
			sum += weights[slot] * float32(dot(down[id][r*inner:(r+1)*inner], x[slot*inner:(slot+1)*inner]))
		}
		n := len(sharedX)
		h[r] += sum + weights[len(ids)]*float32(dot(shared[r*n:(r+1)*n], sharedX))
	}
}

// dot is the dot product of weights and a bf16 vector.
func dot(w []float32, x []uint16) float64 {
	sum := 0.0
	for i := range w {
		sum += float64(w[i]) * float64(Float(x[i]))
	}
	return sum
}
