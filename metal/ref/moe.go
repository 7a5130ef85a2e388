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

// ExpertsUp returns silu(gate x) * (up x), both scaled, for each matrix of gates' rows and then ups' rows: [slots][I]. x is
// the gained vector, scale the factor that its norm lacks.
func ExpertsUp(gateUp []Matrix, x []float32, scale float32) []float32 {
	var out []float32
	for _, m := range gateUp {
		out = append(out, SwiGLU(Linear(m, x, scale))...)
	}
	return out
}

// ExpertsDown returns the residual h plus the sum over slots of weights[slot] * down[slot] x[slot], x being [slots][I], plus
// the last weight times shared sharedX.
func ExpertsDown(h, weights []float32, down []Matrix, x []float32, shared Matrix, sharedX []float32) []float32 {
	sum := make([]float32, len(h))
	add := func(weight float32, y []float32) {
		for i := range sum {
			sum[i] += weight * y[i]
		}
	}
	for slot, m := range down {
		add(weights[slot], Linear(m, x[slot*m.Cols:(slot+1)*m.Cols], 1))
	}
	add(weights[len(down)], Linear(shared, sharedX, 1))
	add(1, h)
	return sum
}
