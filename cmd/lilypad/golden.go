package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
)

// golden is a recorded reference run: token sequences with what a reference implementation predicted at some positions.
type golden struct {
	dtype string // of the reference's arithmetic; "" when the file does not say
	cases []goldenCase
}

// goldenCase is one sequence. want[i] belongs to position i: the prediction of tokens[i] given tokens[:i].
type goldenCase struct {
	name    string
	tokens  []int32
	prompt  int // tokens[:prompt] are prefilled, the others decoded one by one
	want    map[int]prediction
	sumNext *float64 // sum of the log-probabilities of tokens[1:]
}

// prediction is what the file records of one position; parts may be missing.
type prediction struct {
	top     []candidate // by log-probability descending
	argmax  int32       // -1 when not recorded
	logprob *float64    // of the token that follows
}

type candidate struct {
	id      int32
	logprob float64
}

// UnmarshalJSON reads the pair [id, logprob].
func (c *candidate) UnmarshalJSON(data []byte) error {
	var pair [2]float64
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if pair[0] != math.Trunc(pair[0]) || pair[0] < 0 || pair[0] > math.MaxInt32 {
		return fmt.Errorf("token id %v is not a whole number from 0 to %d", pair[0], math.MaxInt32)
	}
	c.id, c.logprob = int32(pair[0]), pair[1]
	return nil
}

// greedyRecord is a prompt and the greedy steps after it; log-probabilities of the prompt's own tokens are optional.
type greedyRecord struct {
	Prompt     []int32   `json:"prompt_token_ids"`
	PromptTop1 []int32   `json:"prompt_argmax"`
	PromptNext []float64 `json:"prompt_next_logprob"`
	Steps      []struct {
		Chosen int32       `json:"chosen"`
		Top    []candidate `json:"topk"`
	} `json:"steps"`
}

// scoredRecord is a sequence scored in one go.
type scoredRecord struct {
	IDs     []int32     `json:"ids"`
	LastTop []candidate `json:"last_topk"`
	Argmax  []int32     `json:"argmax"`
	SumNext *float64    `json:"sum_next_logprob"`
}

// readGolden reads one of three layouts: one greedy run, several greedy runs under "cases", or scored sequences under
// "cases".
func readGolden(path string) (*golden, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		DType string            `json:"dtype"`
		Cases []json.RawMessage `json:"cases"`
		greedyRecord
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s is no golden file: %w", path, err)
	}
	g := &golden{dtype: file.DType}
	if file.Cases == nil {
		c, err := file.greedyRecord.toCase("run")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		g.cases = append(g.cases, c)
		return g, nil
	}
	for i, raw := range file.Cases {
		c, err := readCase(fmt.Sprintf("case %d", i), raw)
		if err != nil {
			return nil, fmt.Errorf("%s: case %d: %w", path, i, err)
		}
		g.cases = append(g.cases, c)
	}
	if len(g.cases) == 0 {
		return nil, fmt.Errorf("%s has no cases", path)
	}
	return g, nil
}

func readCase(name string, raw json.RawMessage) (goldenCase, error) {
	var either struct {
		greedyRecord
		scoredRecord
	}
	if err := json.Unmarshal(raw, &either); err != nil {
		return goldenCase{}, err
	}
	if either.IDs != nil {
		return either.scoredRecord.toCase(name)
	}
	return either.greedyRecord.toCase(name)
}

func (r *greedyRecord) toCase(name string) (goldenCase, error) {
	n := len(r.Prompt)
	switch {
	case n == 0:
		return goldenCase{}, fmt.Errorf("it has neither prompt_token_ids nor ids")
	case len(r.Steps) == 0:
		return goldenCase{}, fmt.Errorf("it has no steps")
	case r.PromptTop1 != nil && len(r.PromptTop1) != n:
		return goldenCase{}, fmt.Errorf("prompt_argmax has %d entries for %d prompt tokens", len(r.PromptTop1), n)
	case r.PromptNext != nil && len(r.PromptNext) != n-1:
		return goldenCase{}, fmt.Errorf("prompt_next_logprob has %d entries for %d prompt tokens, want %d", len(r.PromptNext), n, n-1)
	}
	c := goldenCase{name: name, tokens: append([]int32(nil), r.Prompt...), prompt: n, want: map[int]prediction{}}
	for i := range r.PromptTop1 {
		p := prediction{argmax: r.PromptTop1[i]}
		if i < len(r.PromptNext) {
			p.logprob = &r.PromptNext[i]
		}
		c.want[i+1] = p
	}
	for i, s := range r.Steps {
		if len(s.Top) == 0 {
			return goldenCase{}, fmt.Errorf("step %d has no topk", i)
		}
		c.want[n+i] = prediction{top: s.Top, argmax: s.Chosen}
		if i < len(r.Steps)-1 {
			c.tokens = append(c.tokens, s.Chosen)
		}
	}
	return c, nil
}

func (r *scoredRecord) toCase(name string) (goldenCase, error) {
	n := len(r.IDs)
	if n == 0 || len(r.Argmax) != n || len(r.LastTop) == 0 {
		return goldenCase{}, fmt.Errorf("it has %d ids, %d argmax and %d last_topk entries", n, len(r.Argmax), len(r.LastTop))
	}
	c := goldenCase{name: name, tokens: r.IDs, prompt: n, want: map[int]prediction{}, sumNext: r.SumNext}
	for i, id := range r.Argmax {
		c.want[i+1] = prediction{argmax: id}
	}
	c.want[n] = prediction{argmax: r.Argmax[n-1], top: r.LastTop}
	return c, nil
}
