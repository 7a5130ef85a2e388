package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lilypad/protocol"
)

func all(int32) bool { return true }

// naive is the rule of the design in its plainest form: sort everything, filter, add up in order. It shares exp, which
// TestExp checks.
func naive(logits []float32, has func(int32) bool, p protocol.Sampling, position int) int32 {
	var cand []candidate
	top := float32(math.Inf(-1))
	for id, l := range logits {
		if has(int32(id)) {
			cand = append(cand, candidate{id: int32(id), logit: l})
			top = max(top, l)
		}
	}
	slices.SortStableFunc(cand, func(a, b candidate) int { return cmp.Compare(b.logit, a.logit) })
	if p.Temperature == 0 {
		return cand[0].id
	}
	if p.TopK > 0 {
		cand = cand[:min(p.TopK, len(cand))]
	}
	sum := float32(0)
	for i := range cand {
		x := (cand[i].logit - top) / p.Temperature
		if cand[i].logit == top {
			x = 0
		}
		cand[i].weight = exp(x)
		sum += cand[i].weight
	}
	var kept []candidate
	before := float32(0)
	for i, c := range cand {
		if p.TopP > 0 && p.TopP < 1 && i > 0 && before >= p.TopP*sum {
			break
		}
		before += c.weight
		if i == 0 || c.weight >= p.MinP {
			kept = append(kept, c)
		}
	}
	sum = 0
	for _, c := range kept {
		sum += c.weight
	}
	limit, at := uniform(p.Seed, position, p.Choice, 0)*sum, float32(0)
	for _, c := range kept {
		if at += c.weight; at > limit {
			return c.id
		}
	}
	return -1
}

func TestChooseEqualsNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		vocab := rapid.SampledFrom([]int{1, 2, 7, 100, 600, 3000}).Draw(rt, "vocab")
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
		has := func(id int32) bool { return vocab == 1 || int(id)%hole != 1 }
		logits[0] = float32(rng.NormFloat64()) // at least one above minus infinity
		p := protocol.Sampling{
			Temperature: rapid.SampledFrom([]float32{0, 1e-30, 0.3, 1, 2, 1e30}).Draw(rt, "temperature"),
			TopK:        rapid.SampledFrom([]int{0, 1, 2, 20, 256, 257, 2000}).Draw(rt, "top_k"),
			TopP:        rapid.SampledFrom([]float32{0, 1e-9, 0.5, 0.95, 0.9999999, 1}).Draw(rt, "top_p"),
			MinP:        rapid.SampledFrom([]float32{0, 1e-6, 0.1, 1}).Draw(rt, "min_p"),
			Seed:        rapid.Uint64().Draw(rt, "seed"),
			Choice:      rapid.Uint32().Draw(rt, "choice"),
		}
		s := New(vocab, has)
		for position := range 5 {
			got, err := s.Choose(logits, p, position)
			if err != nil {
				rt.Fatal(err)
			}
			if want := naive(logits, has, p, position); got != want {
				rt.Fatalf("position %d: token %d (logit %v), want %d (logit %v)", position, got, logits[got], want, logits[want])
			}
		}
	})
}

// TestLongTail: many candidates that weigh next to nothing each still get their share, and those below half a unit in the
// last place of the sum get none, as adding them up in order says.
func TestLongTail(t *testing.T) {
	const vocab = 200_001
	s := New(vocab, all)
	for _, low := range []float32{-13, -16.4, -16.6, -18} {
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = low
		}
		logits[77] = 0
		for position := range 8 {
			p := protocol.Sampling{Temperature: 1, Seed: 3}
			got, err := s.Choose(logits, p, position)
			if want := naive(logits, all, p, position); err != nil || got != want {
				t.Errorf("tail at %v, position %d: token %d, error %v, want %d", low, position, got, err, want)
			}
		}
	}
}

func TestDescending(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := rapid.Float32().Draw(rt, "a")
		b := rapid.OneOf(rapid.Float32(), rapid.Just(math.Nextafter32(a, 100)), rapid.Just(a), rapid.Just(-a)).Draw(rt, "b")
		if got, want := cmp.Compare(descending(b), descending(a)), cmp.Compare(a, b); got != want {
			rt.Errorf("the keys of %v and %v compare as %d, want %d", a, b, got, want)
		}
	})
}

func TestChooseSpecialLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	tests := []struct {
		name   string
		logits []float32
		want   int32 // -1 for an error of CodeInternal
	}{
		{"tie goes to the lowest id", []float32{1, 3, 3, 2}, 1},
		{"plus infinity wins", []float32{1, inf, 3, 2}, 1},
		{"minus infinity everywhere else", []float32{-inf, -inf, -5, -inf}, 2},
		{"zeros of both signs are equal", []float32{float32(math.Copysign(0, -1)), 0, -1, -1}, 0},
		{"nothing left", []float32{-inf, -inf, -inf, -inf}, -1},
		{"not a number", []float32{1, 2, nan, 0}, -1},
		{"first is not a number", []float32{nan, 2, 1, 0}, -1},
		{"wrong length", []float32{1, 2}, -1},
	}
	for _, tt := range tests {
		for _, p := range []protocol.Sampling{{}, {Temperature: 1e-20}, {Temperature: 1, TopK: 1}, {Temperature: 1, TopP: 1e-20}} {
			t.Run(tt.name, func(t *testing.T) {
				got, err := New(4, all).Choose(tt.logits, p, 3)
				if tt.want < 0 {
					if protocol.CodeOf(err) != protocol.CodeInternal {
						t.Fatalf("error %v, want one of CodeInternal", err)
					}
					return
				}
				// ties share the draw when a temperature is set, so only greedy tells the order there
				tie := tt.logits[got] == tt.logits[tt.want] && p.Temperature == 1e-20
				if err != nil || got != tt.want && !tie {
					t.Errorf("token %d, error %v, want token %d", got, err, tt.want)
				}
			})
		}
	}
}

func TestNeverAnIDWithoutToken(t *testing.T) {
	nan := float32(math.NaN())
	logits := []float32{nan, 50, 1, 0, 50, nan}
	has := func(id int32) bool { return id == 2 || id == 3 }
	s := New(6, has)
	for _, temperature := range []float32{0, 1, 1000} {
		for position := range 200 {
			id, err := s.Choose(logits, protocol.Sampling{Temperature: temperature}, position)
			if err != nil || !has(id) {
				t.Fatalf("temperature %v, position %d: token %d, error %v", temperature, position, id, err)
			}
		}
	}
	if lp, top, err := s.Logprobs(logits, 2, 6, nil); err != nil || len(top) != 2 || math.Abs(float64(lp)+0.3132617) > 1e-6 {
		t.Errorf("log-probability %v, top %v, error %v, want -0.3132617 and two candidates", lp, top, err)
	}
	if lp, _, err := s.Logprobs(logits, 4, 0, nil); err != nil || !math.IsInf(float64(lp), -1) {
		t.Errorf("log-probability without a token %v, error %v, want minus infinity", lp, err)
	}
}

// TestFilters checks which tokens are ever drawn against sets worked out by hand from HF's warpers: the probabilities of
// the logits at temperature 1 are 0.5, 0.25, 0.125, 0.0625, 0.0625.
func TestFilters(t *testing.T) {
	logits := make([]float32, 5)
	for i, p := range []float64{0.0625, 0.5, 0.0625, 0.25, 0.125} {
		logits[i] = float32(math.Log(p))
	}
	tests := []struct {
		name string
		p    protocol.Sampling
		want []int32
	}{
		{"nothing", protocol.Sampling{Temperature: 1}, []int32{0, 1, 2, 3, 4}},
		{"top-k", protocol.Sampling{Temperature: 1, TopK: 2}, []int32{1, 3}},
		{"top-k cuts a tie at the higher id", protocol.Sampling{Temperature: 1, TopK: 4}, []int32{0, 1, 3, 4}},
		{"top-k above the vocabulary", protocol.Sampling{Temperature: 1, TopK: 999}, []int32{0, 1, 2, 3, 4}},
		{"top-p keeps the one that reaches it", protocol.Sampling{Temperature: 1, TopP: 0.6}, []int32{1, 3}},
		{"top-p below the first", protocol.Sampling{Temperature: 1, TopP: 0.01}, []int32{1}},
		{"top-p acts after top-k", protocol.Sampling{Temperature: 1, TopK: 2, TopP: 0.6}, []int32{1}},
		{"top-p acts after temperature: nearly uniform", protocol.Sampling{Temperature: 1e6, TopP: 0.5}, []int32{1, 3, 4}},
		{"min-p is relative to the largest", protocol.Sampling{Temperature: 1, MinP: 0.2}, []int32{1, 3, 4}},
		{"min-p after top-p", protocol.Sampling{Temperature: 1, TopP: 0.8, MinP: 0.3}, []int32{1, 3}},
		{"min-p of one", protocol.Sampling{Temperature: 1, MinP: 1}, []int32{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(5, all)
			seen := map[int32]bool{}
			for position := range 4000 {
				id, err := s.Choose(logits, tt.p, position)
				if err != nil {
					t.Fatal(err)
				}
				seen[id] = true
			}
			var got []int32
			for id := range seen {
				got = append(got, id)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("drew %v, want %v", got, tt.want)
			}
		})
	}
}

// TestDistribution compares drawn frequencies with fp64 probabilities by chi-square; seeds are fixed, so it is exact.
func TestDistribution(t *testing.T) {
	const vocab, draws = 40, 40_000
	rng := rand.New(rand.NewPCG(5, 6))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	for _, temperature := range []float32{0.5, 1, 2} {
		prob, sum := make([]float64, vocab), 0.0
		for i, l := range logits {
			prob[i] = math.Exp(float64(l) / float64(temperature))
			sum += prob[i]
		}
		s, count := New(vocab, all), make([]float64, vocab)
		for position := range draws {
			id, err := s.Choose(logits, protocol.Sampling{Temperature: temperature, Seed: 77}, position)
			if err != nil {
				t.Fatal(err)
			}
			count[id]++
		}
		chi := 0.0
		for i := range prob {
			want := draws * prob[i] / sum
			chi += (count[i] - want) * (count[i] - want) / want
		}
		if chi > 73 { // 0.999 quantile of chi-square with 39 degrees of freedom is 72.05
			t.Errorf("temperature %v: chi-square %.1f with 39 degrees of freedom", temperature, chi)
		}
	}
}

func TestLogprobs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-30, 30), 1, 50).Draw(rt, "logits")
		n := rapid.IntRange(0, 20).Draw(rt, "n")
		id := int32(rapid.IntRange(0, len(logits)-1).Draw(rt, "id"))
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(float64(l))
		}
		got, top, err := New(len(logits), all).Logprobs(logits, id, n, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if want := float64(logits[id]) - math.Log(sum); math.Abs(float64(got)-want) > 1e-5 {
			rt.Errorf("log-probability %v, want %v", got, want)
		}
		if len(top) != min(n, len(logits)) {
			rt.Fatalf("%d candidates, want %d", len(top), min(n, len(logits)))
		}
		for i := 1; i < len(top); i++ {
			a, b := logits[top[i-1].ID], logits[top[i].ID]
			if a < b || a == b && top[i-1].ID > top[i].ID {
				rt.Errorf("candidates %v are out of order", top)
			}
		}
	})
}

func TestChooseDoesNotAllocate(t *testing.T) {
	const vocab = 5000
	logits := noise(vocab)
	s := New(vocab, all)
	for _, p := range benchmarks {
		position := 0
		step := func() {
			position++
			if _, err := s.Choose(logits, p.Sampling, position); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if got := testing.AllocsPerRun(20, step); got > 0 {
			t.Errorf("%s: %v allocations a token", p.name, got)
		}
	}
}

var benchmarks = []struct {
	name string
	protocol.Sampling
}{
	{"greedy", protocol.Sampling{}},
	{"top-k 20, top-p 0.95", protocol.Sampling{Temperature: 1, TopK: 20, TopP: 0.95}},
	{"top-p 0.95", protocol.Sampling{Temperature: 1, TopP: 0.95}},
	{"everything", protocol.Sampling{Temperature: 1}},
	{"everything, hot", protocol.Sampling{Temperature: 5}},
}

func noise(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * 3)
	}
	return out
}

// BenchmarkChoose runs at the vocabulary of Qwen3.6.
func BenchmarkChoose(b *testing.B) {
	const vocab = 248_320
	logits := noise(vocab)
	s := New(vocab, func(id int32) bool { return id < 248_077 })
	for _, bench := range benchmarks {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			position := 0
			for b.Loop() {
				position++
				if _, err := s.Choose(logits, bench.Sampling, position); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("logprobs 20", func(b *testing.B) {
		b.ReportAllocs()
		var top []Scored
		for b.Loop() {
			var err error
			if _, top, err = s.Logprobs(logits, 1, 20, top[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
