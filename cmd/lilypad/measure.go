package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lilypad/protocol"
)

// speed is one measured generation.
type speed struct {
	first time.Duration // from the call to the first token
	total time.Duration // from the call to the last token
	steps int           // tokens after those that came first
	all   int           // tokens
}

// perToken is the wall time of one decode step. Tokens that came together were computed before; where too many came first to
// tell, those count with all of the time.
func (s speed) perToken() time.Duration {
	if 2*s.steps < s.all {
		return s.total / time.Duration(s.all)
	}
	return (s.total - s.first) / time.Duration(max(1, s.steps))
}

// measure generates n tokens greedily after a prompt and times them. No stop id ends it.
func measure(ctx context.Context, engine protocol.Engine, prompt []int32, n int) (speed, error) {
	var s speed
	count, lead := 0, 0
	start := time.Now()
	err := engine.Generate(ctx, protocol.GenerateRequest{ID: "bench", Tokens: prompt, Prompt: len(prompt), MaxTokens: n},
		func(ev protocol.Event) error {
			if len(ev.Tokens) > 0 {
				s.total = time.Since(start)
				if count == 0 {
					s.first, lead = s.total, len(ev.Tokens)
				}
				count += len(ev.Tokens)
			}
			return nil
		})
	if err == nil && count != n {
		err = fmt.Errorf("the engine made %d tokens, want %d", count, n)
	}
	s.steps, s.all = count-lead, count
	return s, err
}

// randomPrompt makes n token ids that no earlier prompt shares a prefix with, so that no cached state serves it.
func randomPrompt(rng *rand.Rand, info protocol.ModelInfo, n int) []int32 {
	// Added tokens stand behind the ordinary ones; ids below the first of them all have a token.
	limit := int32(info.Vocab)
	if len(info.Added) > 0 {
		limit = info.Added[0].ID
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(limit)
	}
	return ids
}

// median of durations; 0 of none.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

// boundaryCost is what one decoded token costs; medians over rounds.
type boundaryCost struct {
	through, direct time.Duration // wall time of one step through the worker process, and in this process
	extra           time.Duration // of the differences of neighbouring rounds
	cpu             time.Duration // CPU time of this process for one token that came through the boundary
}

// measureBoundary runs the same generation through the worker process and in this process, in turn: what else the machine
// does meets both alike.
func measureBoundary(ctx context.Context, remote, local protocol.Engine, info protocol.ModelInfo, rounds, tokens int) (boundaryCost, error) {
	rng := rand.New(rand.NewPCG(2, 0))
	var through, direct, extra, cpu []time.Duration
	for range rounds {
		prompt := randomPrompt(rng, info, 16)
		before := cpuTime()
		r, err := measure(ctx, remote, prompt, tokens)
		if err != nil {
			return boundaryCost{}, fmt.Errorf("through the worker process: %w", err)
		}
		cpu = append(cpu, (cpuTime()-before)/time.Duration(tokens))
		l, err := measure(ctx, local, prompt, tokens)
		if err != nil {
			return boundaryCost{}, fmt.Errorf("in this process: %w", err)
		}
		through, direct = append(through, r.perToken()), append(direct, l.perToken())
		extra = append(extra, r.perToken()-l.perToken())
	}
	return boundaryCost{median(through), median(direct), median(extra), median(cpu)}, nil
}
