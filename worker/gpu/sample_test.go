package gpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
	"lilypad/protocol"
	"lilypad/worker/sample"
)

// TestSamplersAgree: for the same logits the kernel chooses the id that worker/sample chooses.
func TestSamplersAgree(t *testing.T) {
	device := simtest.Open(t, sim.Options{})
	set := kernels.New(device)
	t.Cleanup(set.Close)
	const vocab = 32_000
	has := func(id int32) bool { return id%7 != 3 }
	host := sample.New(vocab, has)
	a, err := fixture.New(device, 1<<18, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	words := make([]uint32, vocab/32)
	for id := range int32(vocab) {
		if has(id) {
			words[id/32] |= 1 << (id % 32)
		}
	}
	s := kernels.Sample{
		Logits: a.Room(4 * vocab), Vocab: vocab, Allowed: a.PutUints(words...), Partials: a.Room(8 * vocab / 32), Parts: vocab / 32,
		Params: a.Room(kernels.SampleParamsBytes), Step: a.Room(kernels.StepBytes),
		Results: a.Room(kernels.Results * kernels.ResultBytes),
	}
	op, err := set.Sample(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Close)
	store := func(r kernels.Ref, words any) {
		if _, err := binary.Encode(a.Bytes(r, int64(binary.Size(words))), binary.LittleEndian, words); err != nil {
			t.Fatal(err)
		}
	}

	rng := rand.New(rand.NewPCG(8, 9))
	logits := make([]float32, vocab)
	for round := range 60 {
		width := []float64{1, 3, 8}[round%3]
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * width)
		}
		p := protocol.Sampling{
			Temperature: []float32{0, 0.3, 0.7, 1}[rng.IntN(4)], TopK: []int{1, 5, 20, 64, 256}[rng.IntN(5)],
			TopP: []float32{0, 0.5, 0.95, 1}[rng.IntN(4)], MinP: []float32{0, 0.01, 0.2}[rng.IntN(3)],
			Seed: rng.Uint64(), Choice: rng.Uint32N(4),
		}
		position := rng.IntN(100_000)
		want, err := host.Choose(logits, p, position+1)
		if err != nil {
			t.Fatal(err)
		}
		store(s.Logits, logits)
		store(s.Partials, ref.Best(logits, words, 32))
		store(s.Params, kernels.SampleParams{
			Temperature: p.Temperature, TopK: uint32(p.TopK), TopP: p.TopP, MinP: p.MinP,
			SeedLow: uint32(p.Seed), SeedHigh: uint32(p.Seed >> 32), Choice: p.Choice,
		})
		store(s.Step, [8]uint32{1: uint32(position)})
		if err := a.Upload(); err != nil {
			t.Fatal(err)
		}
		if err := fixture.Run(device, op); err != nil {
			t.Fatal(err)
		}
		if err := a.Download(); err != nil {
			t.Fatal(err)
		}
		if got := a.Uints(s.Results, 2); got[0] != uint32(want) || got[1] != 0 {
			t.Fatalf("round %d, %+v, position %d: token %d with flags %d, want %d", round, p, position+1, got[0], got[1], want)
		}
	}
}

// TestExponentialsAgree: the twin's weights are those of worker/sample, seen through two candidates: the second is drawn
// just as often as its weight says.
func TestExponentialsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	s := sample.New(2, func(int32) bool { return true })
	for i := range 20_000 {
		logits := []float32{0, float32(-rng.ExpFloat64() * 2)}
		p := protocol.Sampling{Temperature: 1, Seed: rng.Uint64()}
		got, err := s.Choose(logits, p, i)
		want, _ := ref.Sample(logits, func(int) bool { return true }, ref.Sampling{Temperature: 1, Seed: p.Seed}, i)
		if err != nil || uint32(got) != want {
			t.Fatalf("logits %v: token %d, error %v, want %d", logits, got, err, want)
		}
	}
	for _, x := range []float64{0, -0.1, -1, -5, -16.9} {
		if got := float64(ref.Exp(float32(x))); math.Abs(got/math.Exp(float64(float32(x)))-1) > 1.2e-7 {
			t.Errorf("exp(%v) is %v, want %v", x, got, math.Exp(x))
		}
	}
}
