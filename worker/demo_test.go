package worker

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"lilypad/protocol"
)

// golden is one greedy generation of the demo model by transformers in fp32 (shared/goldens/demo_generation.json, without
// the candidates that were not chosen).
type golden struct {
	Prompt, IDs []int32 // the last id is the stop token, where there is one
	Logprobs    []float64
	Text        string
}

func demoGoldens(t *testing.T) []golden {
	t.Helper()
	data, err := os.ReadFile("testdata/demo_generation.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDemoGoldens asks all cases at once, four of them interleaved, and the short ones again from cached states.
func TestDemoGoldens(t *testing.T) {
	if raceEnabled {
		t.Skip("numeric goldens run without the race detector")
	}
	e := demo(t, protocol.LoadRequest{})
	stops := []int32{3019, 3021}
	for _, round := range []string{"fresh", "cached"} {
		var wg sync.WaitGroup
		for i, g := range demoGoldens(t) {
			if round == "cached" && len(g.IDs) > 50 {
				continue
			}
			wg.Go(func() {
				got := ask(t, e, protocol.GenerateRequest{
					Tokens: g.Prompt, Prompt: len(g.Prompt), MaxTokens: len(g.IDs), StopIDs: stops, Logprobs: true,
					Checkpoints: []int{len(g.Prompt) / 2},
				})
				want := g.IDs
				if slices.Contains(stops, want[len(want)-1]) {
					want = want[:len(want)-1]
				}
				if !slices.Equal(got.ids(), want) {
					t.Errorf("%s, case %d: %q, want %q", round, i, got.text(), g.Text)
					return
				}
				for j, tok := range got.tokens {
					if d := math.Abs(float64(tok.Logprob) - g.Logprobs[j]); d > 2e-3 {
						t.Errorf("%s, case %d, token %d: log-probability %v, want %v", round, i, j, tok.Logprob, g.Logprobs[j])
					}
				}
			})
		}
		wg.Wait()
	}
	if st, _ := e.Stats(t.Context()); st.Cached == 0 {
		t.Error("nothing came from a cached state in the second round")
	}
}

func TestDemoScore(t *testing.T) {
	if raceEnabled {
		t.Skip("numeric goldens run without the race detector")
	}
	e := demo(t, protocol.LoadRequest{})
	g := demoGoldens(t)[4] // counts to 30
	req := protocol.ScoreRequest{Tokens: slices.Concat(g.Prompt, g.IDs), From: len(g.Prompt), TopK: 1}
	steps := 0
	err := e.Score(t.Context(), req, func(s protocol.ScoreStep) error {
		i := s.Position - len(g.Prompt)
		if i < len(g.IDs) {
			if s.Top[0].ID != g.IDs[i] || math.Abs(float64(s.Logprob)-g.Logprobs[i]) > 2e-3 {
				t.Errorf("step %d: %+v, want token %d with %v", i, s, g.IDs[i], g.Logprobs[i])
			}
		}
		steps++
		return nil
	})
	if err != nil || steps != len(g.IDs)+1 {
		t.Errorf("%d steps, error %v, want %d", steps, err, len(g.IDs)+1)
	}
}

func TestDemoReplayAtEveryToken(t *testing.T) {
	if raceEnabled {
		t.Skip("the backend's own goroutines are raced in its package")
	}
	prompt := demoGoldens(t)[6].Prompt // a story
	for name, sampling := range map[string]protocol.Sampling{
		"greedy":  {},
		"sampled": {Temperature: 1.2, TopP: 0.98, Seed: 7},
	} {
		t.Run(name, func(t *testing.T) {
			var e *Engine
			start := func() *Engine { // one engine at a time is enough, but each with nothing cached
				if e != nil {
					if err := e.Unload(t.Context()); err != nil {
						t.Error(err)
					}
				}
				e = demo(t, protocol.LoadRequest{})
				return e
			}
			replays(t, start, protocol.GenerateRequest{
				Tokens: prompt, Prompt: len(prompt), MaxTokens: 24, StopIDs: []int32{3019, 3021}, Sampling: sampling, TopLogprobs: 3,
			})
		})
	}
}

// BenchmarkDemoDecode is what one token of the demo model costs through the engine, in this process.
func BenchmarkDemoDecode(b *testing.B) {
	e := demo(b, protocol.LoadRequest{})
	req := protocol.GenerateRequest{Tokens: []int32{3020, 276, 198}, Prompt: 3, MaxTokens: 1000}
	b.ReportAllocs()
	tokens := 0
	for b.Loop() {
		req.Tokens[1]++ // nothing cached
		tokens += len(ask(b, e, req).tokens)
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkDemoPrefill is the same for a prompt of 1,000 tokens.
func BenchmarkDemoPrefill(b *testing.B) {
	e := demo(b, protocol.LoadRequest{})
	req := prompt(1000, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		req.Tokens[0]++ // nothing cached
		ask(b, e, req)
	}
	b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "tokens/s")
}
