package gpu

import (
	"encoding/json"
	"math"
	"os"
	"runtime"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
	"lilypad/scripts/demo-model"
	"lilypad/worker/checkpoint"
	"lilypad/worker/cpu"
	"lilypad/worker/state"
)

func openDevice(t testing.TB) *metal.Device {
	t.Helper()
	runtime.LockOSThread() // where a GPU driver wants all its work
	t.Cleanup(runtime.UnlockOSThread)
	return simtest.Open(t, sim.Options{Target: sim.CPU})
}

func openDemo(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

func openTiny(t testing.TB, name string, quantize int) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Open("../checkpoint/testdata/"+name, checkpoint.Options{WeightsOnly: true, Quantize: quantize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

// newModel makes a Model that is closed, with its device, at the end of the test.
func newModel(t testing.TB, d *metal.Device, ck *checkpoint.Checkpoint, opt Options) *Model {
	t.Helper()
	m, err := New(d, ck, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := m.Bytes(); n != 0 && !t.Failed() {
			t.Errorf("%d bytes of states are left at the end", n)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func newSequence(t testing.TB, b state.Backend) state.Sequence {
	t.Helper()
	s, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// reference computes in fp32 on the CPU.
func reference(t testing.TB, ck *checkpoint.Checkpoint, tokens []int32) []float32 {
	t.Helper()
	m, err := cpu.New(ck, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.New()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return forward(t, s, tokens, len(tokens), ck.Shape.Vocab)
}

// forward computes tokens as one chunk and returns the logits of the last rows.
func forward(t testing.TB, s state.Sequence, tokens []int32, rows, vocab int) []float32 {
	t.Helper()
	if err := s.Grow(len(tokens)); err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, rows*vocab)
	if err := s.Forward(tokens, rows, logits); err != nil {
		t.Fatal(err)
	}
	return logits
}

// oneByOne computes tokens each alone, as an answer's are, and returns the logits of all.
func oneByOne(t testing.TB, s state.Sequence, tokens []int32, vocab int) []float32 {
	t.Helper()
	var all []float32
	for i := range tokens {
		all = append(all, forward(t, s, tokens[i:i+1], 1, vocab)...)
	}
	return all
}

func readJSON(t testing.TB, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// divergence is the Kullback-Leibler divergence, over positions, of predictions got from want.
type divergence struct {
	sum, worst float64
	n, flips   int     // positions, and those where another token is the likeliest although want's margin is over 0.25
	margin     float64 // the largest of a flip
}

func (d *divergence) mean() float64 { return d.sum / float64(max(d.n, 1)) }

// add compares rows of logits.
func (d *divergence) add(want, got []float32, vocab int) {
	for at := 0; at < len(want); at += vocab {
		w, g := logSoftmax(want[at:at+vocab]), logSoftmax(got[at:at+vocab])
		kl, first, second, best := 0.0, 0, -1, 0
		for i, p := range w {
			kl += math.Exp(p) * (p - g[i])
			if p > w[first] {
				first, second = i, first
			} else if i != first && (second < 0 || p > w[second]) {
				second = i
			}
			if g[i] > g[best] {
				best = i
			}
		}
		d.n++
		d.sum += kl
		if !(kl <= d.worst) { // a NaN too
			d.worst = kl
		}
		if margin := w[first] - w[second]; best != first && margin > 0.25 {
			d.flips++
			d.margin = max(d.margin, margin)
		}
	}
}

func logSoftmax(logits []float32) []float64 {
	top := math.Inf(-1)
	for _, v := range logits {
		top = math.Max(top, float64(v))
	}
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(logits))
	for i, v := range logits {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}

func argmax(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// someTokens is n ids, always the same.
func someTokens(n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % vocab)
	}
	return tokens
}
