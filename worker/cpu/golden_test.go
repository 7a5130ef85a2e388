package cpu

import (
	"fmt"
	"math"
	"testing"
)

// tolerance of log-probabilities against Hugging Face transformers in fp32 (design, section 4).
const tolerance = 2e-3

// pair is [id, log-probability] in the goldens.
type pair [2]float64

func (p pair) check(t *testing.T, what string, logprobs []float64) {
	t.Helper()
	if got := logprobs[int(p[0])]; !(math.Abs(got-p[1]) <= tolerance) {
		t.Errorf("%s: log-probability of %d is %.6f, want %.6f", what, int(p[0]), got, p[1])
	}
}

// TestDemoGeneration replays every recorded greedy generation token for token.
func TestDemoGeneration(t *testing.T) { eachSet(t, testDemoGeneration) }

func testDemoGeneration(t *testing.T, set string) {
	if slow {
		t.Skip("numeric golden: too slow under the race detector")
	}
	var golden struct {
		Cases []struct {
			Text        string    `json:"text"`
			Prompt      []int32   `json:"prompt_token_ids"`
			Argmax      []int32   `json:"prompt_argmax"`
			NextLogprob []float64 `json:"prompt_next_logprob"`
			Steps       []struct {
				Chosen int32  `json:"chosen"`
				TopK   []pair `json:"topk"`
			} `json:"steps"`
		} `json:"cases"`
	}
	readJSON(t, "testdata/demo_generation.json", &golden)
	if len(golden.Cases) != 18 {
		t.Fatalf("%d cases, want 18", len(golden.Cases))
	}
	m := newModel(t, openDemo(t), Options{Kernels: set})
	vocab := m.shape.Vocab
	for i, c := range golden.Cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := newSequence(t, m)
			logits := forward(t, s, c.Prompt, len(c.Prompt))
			for p, want := range c.Argmax {
				row := logits[p*vocab : (p+1)*vocab]
				if got := argmax(row); got != want {
					t.Errorf("prompt position %d: argmax %d, want %d", p, got, want)
				}
				if p < len(c.NextLogprob) {
					pair{float64(c.Prompt[p+1]), c.NextLogprob[p]}.check(t, fmt.Sprintf("prompt position %d", p), logSoftmax(row))
				}
			}
			row := logits[(len(c.Prompt)-1)*vocab:]
			for n, step := range c.Steps {
				lp := logSoftmax(row)
				for _, p := range step.TopK {
					p.check(t, fmt.Sprintf("step %d", n), lp)
				}
				if got := argmax(row); got != step.Chosen {
					t.Fatalf("step %d: token %d, want %d", n, got, step.Chosen)
				}
				row = forward(t, s, []int32{step.Chosen}, 1)
			}
		})
	}
}

// TestTinyRelatives checks the random models in Hugging Face's layout at every recorded length.
func TestTinyRelatives(t *testing.T) { eachSet(t, testTinyRelatives) }

func testTinyRelatives(t *testing.T, set string) {
	if slow {
		t.Skip("numeric golden: too slow under the race detector")
	}
	for _, name := range []string{"tiny-moe-r3", "tiny-dense-tied-r1"} {
		t.Run(name, func(t *testing.T) {
			var golden struct {
				Cases []struct {
					IDs    []int32 `json:"ids"`
					TopK   []pair  `json:"last_topk"`
					Argmax []int32 `json:"argmax"`
					Sum    float64 `json:"sum_next_logprob"`
				} `json:"cases"`
			}
			dir := "../checkpoint/testdata/" + name
			readJSON(t, dir+"/goldens.json", &golden)
			if len(golden.Cases) == 0 {
				t.Fatal("no cases")
			}
			m := newModel(t, openDir(t, dir), Options{Kernels: set})
			vocab := m.shape.Vocab
			for _, c := range golden.Cases {
				n := len(c.IDs)
				logits := forward(t, newSequence(t, m), c.IDs, n)
				var sum float64
				for p, want := range c.Argmax {
					row := logits[p*vocab : (p+1)*vocab]
					if got := argmax(row); got != want {
						t.Errorf("length %d position %d: argmax %d, want %d", n, p, got, want)
					}
					if p+1 < n {
						sum += logSoftmax(row)[c.IDs[p+1]]
					}
				}
				if math.Abs(sum-c.Sum) > tolerance*float64(n) {
					t.Errorf("length %d: sum of log-probabilities %.5f, want %.5f", n, sum, c.Sum)
				}
				for _, p := range c.TopK {
					p.check(t, fmt.Sprintf("length %d", n), logSoftmax(logits[(n-1)*vocab:]))
				}
			}
		})
	}
}
