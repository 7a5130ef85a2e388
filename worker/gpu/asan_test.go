package gpu

import (
	"runtime"
	"slices"
	"testing"

	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// TestGoldenUnderAddressSanitizer computes a recorded prompt and the beginning of its answer, 30 tokens at most, with every
// check of the simulator and fibers in random order; the tokens are those recorded.
func TestGoldenUnderAddressSanitizer(t *testing.T) {
	if !simtest.ASan(t) {
		return
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d := simtest.Open(t, sim.Options{Target: sim.CPU, Check: true, Poison: true, Seed: 20261130})
	m := newModel(t, d, openDemo(t), Options{})
	c := demoCases(t)[0]
	const most = 30
	s := newSequence(t, m)
	logits := forward(t, s, c.Prompt, 1, m.Vocab())
	ids := []int32{argmax(logits)}
	n := min(len(c.Steps), most-len(c.Prompt))
	ids = append(ids, stepped(t, s, ids[0], samplings["greedy"], n-1, m.Vocab())...)
	var want []int32
	for _, s := range c.Steps[:n] {
		want = append(want, s.Chosen)
	}
	if !slices.Equal(ids, want) || n < 5 {
		t.Errorf("tokens %v, want %v", ids, want)
	}
}
