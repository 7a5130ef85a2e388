package cpu

// routeRow chooses the experts of one token: softmax over all logits in fp32, the largest ExpertsPerToken with ties to
// the lowest id, renormalised if the model says so, then in ascending id.
func routeRow(p *pass, t int) {
	s, b := p.m.shape, &p.buf
	logits := b.router[t*s.Experts : (t+1)*s.Experts]
	top := b.top[t*s.ExpertsPerToken : (t+1)*s.ExpertsPerToken]
	weights := b.topW[t*s.ExpertsPerToken : (t+1)*s.ExpertsPerToken]
	p.m.kernels.softmax(logits)
	choose(logits, top, weights)
	if s.NormTopK {
		var sum float32
		for _, w := range weights {
			sum += w
		}
		for i := range weights {
			weights[i] /= sum
		}
	}
	sortByID(top, weights)
	b.gate[t] = sigmoid(b.gate[t])
}

// choose fills ids with the indices of the largest probabilities, largest first and ties to the lowest index.
func choose(probs []float32, ids []int32, weights []float32) {
	n := 0
	for i, p := range probs {
		if n == len(ids) && !(p > weights[n-1]) {
			continue
		}
		j := min(n, len(ids)-1)
		for ; j > 0 && p > weights[j-1]; j-- {
			ids[j], weights[j] = ids[j-1], weights[j-1]
		}
		ids[j], weights[j] = int32(i), p
		n = min(n+1, len(ids))
	}
}

// sortByID sorts a few experts by insertion.
func sortByID(ids []int32, weights []float32) {
	for i := 1; i < len(ids); i++ {
		for j := i; j > 0 && ids[j] < ids[j-1]; j-- {
			ids[j], ids[j-1] = ids[j-1], ids[j]
			weights[j], weights[j-1] = weights[j-1], weights[j]
		}
	}
}
