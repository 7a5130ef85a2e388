package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
	"lilypad/metal/sim"
)

// mask has bit id set where allowed says so.
func mask(vocab int, allowed func(id int) bool) []uint32 {
	words := make([]uint32, (vocab+31)/32)
	for id := range vocab {
		if allowed(id) {
			words[id/32] |= 1 << (id % 32)
		}
	}
	return words
}

// sampled is what one run of the sampler left.
type sampled struct {
	id, flags uint32
	step      step
	results   []uint32 // the whole ring
}

// runSample runs the sampler over logits with the partials that the head would have made.
func runSample(device *metal.Device, set *kernels.Set, logits []float32, allowed func(id int) bool, p ref.Sampling, before step) (sampled, error) {
	a, err := fixture.New(device, int64(len(logits))*5+1<<13, 1)
	if err != nil {
		return sampled{}, err
	}
	defer a.Close()
	words := mask(len(logits), allowed)
	var partials []uint32
	for _, b := range ref.Best(logits, words, 32) {
		partials = append(partials, math.Float32bits(b.Logit), b.ID)
	}
	c := kernels.Sample{
		Logits: a.PutFloats(logits), Vocab: len(logits), Allowed: a.PutUints(words...), Partials: a.PutUints(partials...), Parts: len(partials) / 2,
		Params: a.PutUints(math.Float32bits(p.Temperature), uint32(p.TopK), math.Float32bits(p.TopP), math.Float32bits(p.MinP),
			uint32(p.Seed), uint32(p.Seed>>32), p.Choice, 0),
		Step: a.PutUints(before.words()...), Results: a.Room(kernels.Results * kernels.ResultBytes),
	}
	op, err := set.Sample(c)
	if err != nil {
		return sampled{}, err
	}
	defer op.Close()
	if err := a.Upload(); err != nil {
		return sampled{}, err
	}
	if err := fixture.Run(device, op); err != nil {
		return sampled{}, err
	}
	if err := a.Download(); err != nil {
		return sampled{}, err
	}
	ring := a.Uints(c.Results, 2*kernels.Results)
	at := before.produced % kernels.Results * 2
	return sampled{ring[at], ring[at+1], stepOf(a.Uints(c.Step, 6)), ring}, nil
}

// expectSample compares with the twin. It accepts no fall-back to the host.
func expectSample(device *metal.Device, set *kernels.Set, logits []float32, allowed func(id int) bool, p ref.Sampling, position int) error {
	got, err := runSample(device, set, logits, allowed, p, step{position: uint32(position - 1)})
	if err != nil {
		return err
	}
	id, outcome := ref.Sample(logits, allowed, p, position)
	flags := []uint32{0, kernels.SampleNaN, kernels.SampleNone}[outcome]
	if got.flags != flags || flags == 0 && got.id != id {
		return fmt.Errorf("token %d with flags %d, want %d with %d", got.id, got.flags, id, flags)
	}
	return nil
}

func every(int) bool { return true }

// TestSampleEqualsTwin: at most Candidates ids, so that the host is never asked.
func TestSampleEqualsTwin(t *testing.T) {
	device, set := newSet(t, sim.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		vocab := rapid.SampledFrom([]int{1, 2, 7, 33, 600, kernels.Candidates}).Draw(rt, "vocab")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "rng"), 1))
		width := rapid.SampledFrom([]float64{0, 0.01, 1, 5, 40}).Draw(rt, "width")
		steps := rapid.SampledFrom([]float64{0, 2, 1000}).Draw(rt, "steps") // rounding makes ties
		logits := make([]float32, vocab)
		for i := range logits {
			l := rng.NormFloat64() * width
			if steps > 0 {
				l = math.Round(l*steps) / steps
			}
			logits[i] = float32(l)
			if rng.IntN(50) == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		hole := rapid.IntRange(2, 9).Draw(rt, "hole")
		allowed := func(id int) bool { return id%hole != 1 }
		p := ref.Sampling{
			Temperature: rapid.SampledFrom([]float32{0, 1e-30, 0.3, 1, 2, 1e30}).Draw(rt, "temperature"),
			TopK:        rapid.SampledFrom([]int{0, 1, 2, 20, 256, 257, 2000}).Draw(rt, "top_k"),
			TopP:        rapid.SampledFrom([]float32{0, 1e-9, 0.5, 0.95, 0.9999999, 1}).Draw(rt, "top_p"),
			MinP:        rapid.SampledFrom([]float32{0, 1e-6, 0.1, 1}).Draw(rt, "min_p"),
			Seed:        rapid.Uint64().Draw(rt, "seed"),
			Choice:      rapid.Uint32().Draw(rt, "choice"),
		}
		if err := expectSample(device, set, logits, allowed, p, rapid.IntRange(1, 1<<31).Draw(rt, "position")); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestSampleVocabulary runs at the vocabulary of Qwen3.6, where tiles are selected before logits.
func TestSampleVocabulary(t *testing.T) {
	device, set := newSet(t, sim.Options{})
	const vocab = 248_320
	rng := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	allowed := func(id int) bool { return id < 248_077 && id%1000 != 5 }
	for _, p := range []ref.Sampling{
		{},
		{Temperature: 1, TopK: 20, TopP: 0.95},
		{Temperature: 0.7, TopK: 40, MinP: 0.05},
		{Temperature: 3, TopK: 256},
		{Temperature: 0.2, TopP: 0.9}, // 17 temperatures hold a few hundred ids
		{Temperature: 0.2, TopK: 300},
	} {
		for position := range 3 {
			p.Seed, p.Choice = uint64(position)<<33+7, 2
			if err := expectSample(device, set, logits, allowed, p, position+1); err != nil {
				t.Errorf("%+v, position %d: %v", p, position+1, err)
			}
		}
	}
}

// TestSampleSmallVocabulary: with few tiles each of them is a set of its own for the bound of top-k.
func TestSampleSmallVocabulary(t *testing.T) {
	device, set := newSet(t, sim.Options{})
	rng := rand.New(rand.NewPCG(4, 2))
	logits := make([]float32, 125*32)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	for _, k := range []int{2, 15, 16, 64, 110} {
		for position := range 3 {
			p := ref.Sampling{Temperature: 0.3, TopK: k, Seed: 1}
			if err := expectSample(device, set, logits, every, p, position+1); err != nil {
				t.Errorf("top-k %d, position %d: %v", k, position+1, err)
			}
		}
	}
}

func TestSampleSpecialLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	zero := float32(math.Copysign(0, -1))
	tests := []struct {
		name   string
		logits []float32
	}{
		{"tie goes to the lowest id", []float32{1, 3, 3, 2}},
		{"plus infinity wins", []float32{1, inf, 3, 2}},
		{"two infinities", []float32{1, inf, 3, inf}},
		{"minus infinity everywhere else", []float32{-inf, -inf, -5, -inf}},
		{"zeros of both signs are equal", []float32{zero, 0, -1, zero}},
		{"nothing left", []float32{-inf, -inf, -inf, -inf}},
		{"not a number", []float32{1, 2, nan, 0}},
		{"a negative one", []float32{-nan, 2, 1, 0}},
	}
	device, set := newSet(t, sim.Options{Check: true})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range []ref.Sampling{{}, {Temperature: 1e-20}, {Temperature: 1, TopK: 1}, {Temperature: 1, TopP: 1e-20}, {Temperature: 1, TopK: 3}} {
				for _, allowed := range []func(int) bool{every, func(id int) bool { return id != 2 }, func(int) bool { return false }} {
					if err := expectSample(device, set, tt.logits, allowed, p, 9); err != nil {
						t.Errorf("%+v: %v", p, err)
					}
				}
			}
		})
	}
}

// TestSampleAsksHost: with more candidates than it can sort the sampler says so, and goes on with the largest logit.
func TestSampleAsksHost(t *testing.T) {
	const vocab = kernels.Candidates + 1
	flat := make([]float32, vocab)
	flat[700] = 1
	tail := slices.Repeat([]float32{-17.5}, vocab)
	tail[700] = 0
	tests := []struct {
		name   string
		logits []float32
		p      ref.Sampling
		host   bool
	}{
		{"all can be drawn", flat, ref.Sampling{Temperature: 1}, true},
		{"ties at the border of top-k", flat, ref.Sampling{Temperature: 1, TopK: 2}, true},
		{"greedy", flat, ref.Sampling{}, false},
		{"a tail that weighs nothing", tail, ref.Sampling{Temperature: 1}, false},
		{"a tail that weighs nothing, top-k", tail, ref.Sampling{Temperature: 1, TopK: 50}, false},
		{"the same tail, hotter", tail, ref.Sampling{Temperature: 2}, true},
	}
	device, set := newSet(t, sim.Options{Check: true})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := runSample(device, set, tt.logits, every, tt.p, step{})
			if err != nil {
				t.Fatal(err)
			}
			want := uint32(0)
			if tt.host {
				want = kernels.SampleHost
			}
			if got.id != 700 || got.flags != want || got.step.token != 700 {
				t.Errorf("token %d with flags %d, next %d; want 700 with %d", got.id, got.flags, got.step.token, want)
			}
		})
	}
}
