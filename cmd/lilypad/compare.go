package main

import (
	"fmt"
	"math"
	"strings"
)

// tolerance says how far an engine's log-probabilities may be from a golden's.
type tolerance struct {
	logprob float64 // absolute difference allowed
	floor   float64 // golden candidates below this log-probability are not compared
	margin  float64 // the greedy token must agree wherever the golden's best two are further apart than this
}

// The tolerances of design.md section 4 (fp32) and model-spec.md section 10 (bf16: one step of a logit between 16 and 32 is
// 0.125, and two correct implementations may each be one step off).
var (
	exactTolerance = tolerance{logprob: 2e-3, floor: math.Inf(-1), margin: 2e-3}
	looseTolerance = tolerance{logprob: 0.25, floor: -6, margin: 0.5}
)

// toleranceFor chooses by the golden's arithmetic and the backend's, whose kernels are named like "cpu/go-amd64".
func toleranceFor(dtype, kernels string) tolerance {
	if dtype == "float32" && strings.HasPrefix(kernels, "cpu/") {
		return exactTolerance
	}
	return looseTolerance
}

// comparison gathers the result of a run against a golden.
type comparison struct {
	tol      tolerance
	steps    int     // positions compared
	worst    float64 // largest log-probability difference seen
	worstAt  string
	mismatch string // the first one, "" without any
	failures int
}

func (c *comparison) fail(format string, args ...any) {
	if c.failures == 0 {
		c.mismatch = fmt.Sprintf(format, args...)
	}
	c.failures++
}

// difference records one pair of log-probabilities.
func (c *comparison) difference(where string, have, want, allowed float64) {
	d := math.Abs(have - want)
	if math.IsNaN(d) {
		c.fail("%s: log-probability %v, want %v", where, have, want)
		return
	}
	if d > c.worst {
		c.worst, c.worstAt = d, where
	}
	if d > allowed {
		c.fail("%s: log-probability %.6f, want %.6f within %g", where, have, want, allowed)
	}
}

// check compares the logits [vocab] that predict position pos of a case with what the golden has there. It returns the
// log-probability of the token at pos, 0 past the end.
func (c *comparison) check(gc *goldenCase, pos int, logits []float32) float64 {
	norm := logSumExp(logits)
	next, nextLogprob := int32(-1), 0.0
	if pos < len(gc.tokens) {
		next = gc.tokens[pos]
		nextLogprob = float64(logits[next]) - norm
	}
	want, ok := gc.want[pos]
	if !ok {
		return nextLogprob
	}
	c.steps++
	where := fmt.Sprintf("%s, position %d", gc.name, pos)
	for _, cand := range want.top {
		if int(cand.id) >= len(logits) {
			c.fail("%s: token %d is outside the vocabulary of %d", where, cand.id, len(logits))
			continue
		}
		if cand.logprob >= c.tol.floor {
			c.difference(fmt.Sprintf("%s, token %d", where, cand.id), float64(logits[cand.id])-norm, cand.logprob, c.tol.logprob)
		}
	}
	if want.logprob != nil && next >= 0 && *want.logprob >= c.tol.floor {
		c.difference(fmt.Sprintf("%s, token %d", where, next), nextLogprob, *want.logprob, c.tol.logprob)
	}
	c.checkArgmax(where, &want, logits)
	return nextLogprob
}

// checkArgmax demands the golden's greedy token unless the choice is within the tolerance: by the golden's own margin where
// it recorded two candidates, else by ours.
func (c *comparison) checkArgmax(where string, want *prediction, logits []float32) {
	if want.argmax < 0 {
		return
	}
	if int(want.argmax) >= len(logits) {
		c.fail("%s: token %d is outside the vocabulary of %d", where, want.argmax, len(logits))
		return
	}
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	if int32(best) == want.argmax {
		return
	}
	margin := float64(logits[best] - logits[want.argmax])
	if len(want.top) > 1 {
		margin = want.top[0].logprob - want.top[1].logprob
	}
	if margin > c.tol.margin {
		c.fail("%s: greedy token %d, want %d (margin %.4f)", where, best, want.argmax, margin)
	}
}

// checkSum compares a whole sequence's log-probability.
func (c *comparison) checkSum(gc *goldenCase, sum float64) {
	if gc.sumNext == nil {
		return
	}
	allowed := c.tol.logprob * float64(max(1, len(gc.tokens)-1))
	if d := math.Abs(sum - *gc.sumNext); !(d <= allowed) {
		c.fail("%s: the sequence's log-probability is %.5f, want %.5f within %g", gc.name, sum, *gc.sumNext, allowed)
	}
}

func logSumExp(logits []float32) float64 {
	top := math.Inf(-1)
	for _, l := range logits {
		top = max(top, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}
