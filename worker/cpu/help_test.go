package cpu

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"lilypad/scripts/demo-model"
	"lilypad/worker/checkpoint"
	"lilypad/worker/state"
)

func openDemo(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

func openDir(t testing.TB, dir string) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Open(dir, checkpoint.Options{WeightsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

// eachSet calls f for each kernel set of this machine.
func eachSet(t *testing.T, f func(t *testing.T, set string)) {
	for _, name := range KernelSets() {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

func newModel(t testing.TB, ck *checkpoint.Checkpoint, opt Options) *Model {
	t.Helper()
	m, err := New(ck, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func newSequence(t testing.TB, m *Model) *sequence {
	t.Helper()
	s, err := m.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.(*sequence)
}

// forward computes tokens as one chunk and returns the logits of the last rows.
func forward(t testing.TB, s state.Sequence, tokens []int32, rows int) []float32 {
	t.Helper()
	m := s.(*sequence).m
	logits := make([]float32, rows*m.shape.Vocab)
	if err := s.Forward(tokens, rows, logits); err != nil {
		t.Fatal(err)
	}
	return logits
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

// logSoftmax returns the log-probabilities of a row of logits.
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
