package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
	"lilypad/worker/state"
	"lilypad/worker/state/statetest"
)

func TestGenerateEnds(t *testing.T) {
	script := func(tokens []int32, logits []float32) { // after n tokens comes n
		statetest.Peak(logits, int32(len(tokens)))
	}
	tests := []struct {
		name    string
		change  func(*protocol.GenerateRequest)
		context int
		want    protocol.Done
		ids     []int32
	}{
		{"max tokens", func(r *protocol.GenerateRequest) { r.MaxTokens = 3 }, 100, protocol.Done{Reason: protocol.MaxTokens}, []int32{5, 6, 7}},
		{"one token", func(r *protocol.GenerateRequest) { r.MaxTokens = 1 }, 100, protocol.Done{Reason: protocol.MaxTokens}, []int32{5}},
		{"stop token", func(r *protocol.GenerateRequest) { r.StopIDs = []int32{3000, 7} }, 100, protocol.Done{Reason: protocol.StopToken, StopID: 7}, []int32{5, 6}},
		{"stop at once", func(r *protocol.GenerateRequest) { r.StopIDs = []int32{5} }, 100, protocol.Done{Reason: protocol.StopToken, StopID: 5}, nil},
		{"context", func(*protocol.GenerateRequest) {}, 8, protocol.Done{Reason: protocol.ContextEnd}, []int32{5, 6, 7}},
		{"longest prompt", func(*protocol.GenerateRequest) {}, 6, protocol.Done{Reason: protocol.ContextEnd}, []int32{5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := fake(t, &statetest.Backend{Score: script}, Options{}, protocol.LoadRequest{Context: tt.context})
			req := prompt(5, 1, 50)
			tt.change(&req)
			got := ask(t, e, req)
			if got.done != tt.want || !slices.Equal(got.ids(), tt.ids) {
				t.Errorf("%v then %+v, want %v then %+v", got.ids(), got.done, tt.ids, tt.want)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	nan := float32(math.NaN())
	tests := []struct {
		name   string
		change func(*protocol.GenerateRequest)
		want   protocol.Code
	}{
		{"no tokens", func(r *protocol.GenerateRequest) { r.Tokens, r.Prompt = nil, 0 }, protocol.CodeInvalid},
		{"negative id", func(r *protocol.GenerateRequest) { r.Tokens[3] = -1 }, protocol.CodeInvalid},
		{"id without a token", func(r *protocol.GenerateRequest) { r.Tokens[3] = 3050 }, protocol.CodeInvalid},
		{"id outside the vocabulary", func(r *protocol.GenerateRequest) { r.Tokens[3] = math.MaxInt32 }, protocol.CodeInvalid},
		{"negative prompt", func(r *protocol.GenerateRequest) { r.Prompt = -1 }, protocol.CodeInvalid},
		{"prompt longer than tokens", func(r *protocol.GenerateRequest) { r.Prompt = 11 }, protocol.CodeInvalid},
		{"no new tokens", func(r *protocol.GenerateRequest) { r.MaxTokens = 0 }, protocol.CodeInvalid},
		{"too many logprobs", func(r *protocol.GenerateRequest) { r.TopLogprobs = 21 }, protocol.CodeInvalid},
		{"negative logprobs", func(r *protocol.GenerateRequest) { r.TopLogprobs = -1 }, protocol.CodeInvalid},
		{"stop id outside", func(r *protocol.GenerateRequest) { r.StopIDs = []int32{testVocab} }, protocol.CodeInvalid},
		{"checkpoints out of order", func(r *protocol.GenerateRequest) { r.Checkpoints = []int{5, 3} }, protocol.CodeInvalid},
		{"negative checkpoint", func(r *protocol.GenerateRequest) { r.Checkpoints = []int{-1} }, protocol.CodeInvalid},
		{"checkpoint beyond the context", func(r *protocol.GenerateRequest) { r.Checkpoints = []int{101} }, protocol.CodeInvalid},
		{"temperature not a number", func(r *protocol.GenerateRequest) { r.Sampling.Temperature = nan }, protocol.CodeInvalid},
		{"temperature infinite", func(r *protocol.GenerateRequest) { r.Sampling.Temperature = float32(math.Inf(1)) }, protocol.CodeInvalid},
		{"negative temperature", func(r *protocol.GenerateRequest) { r.Sampling.Temperature = -1 }, protocol.CodeInvalid},
		{"negative top k", func(r *protocol.GenerateRequest) { r.Sampling.TopK = -1 }, protocol.CodeInvalid},
		{"top p not a number", func(r *protocol.GenerateRequest) { r.Sampling.TopP = nan }, protocol.CodeInvalid},
		{"top p above one", func(r *protocol.GenerateRequest) { r.Sampling.TopP = 1.5 }, protocol.CodeInvalid},
		{"min p not a number", func(r *protocol.GenerateRequest) { r.Sampling.MinP = nan }, protocol.CodeInvalid},
		{"schedule longer than tokens", func(r *protocol.GenerateRequest) {
			r.Schedule = []protocol.Segment{{Kind: protocol.Prefill, N: 6}, {Kind: protocol.Decode, N: 5}}
		}, protocol.CodeInvalid},
		{"segment that would overflow", func(r *protocol.GenerateRequest) {
			r.Schedule = []protocol.Segment{{Kind: protocol.Decode, N: 6}, {Kind: protocol.Decode, N: math.MaxInt}}
		}, protocol.CodeInvalid},
		{"empty segment", func(r *protocol.GenerateRequest) { r.Schedule = []protocol.Segment{{Kind: protocol.Prefill}} }, protocol.CodeInvalid},
		{"negative segment", func(r *protocol.GenerateRequest) {
			r.Schedule = []protocol.Segment{{Kind: protocol.Prefill, N: -1}}
		}, protocol.CodeInvalid},
		{"segment of no kind", func(r *protocol.GenerateRequest) { r.Schedule = []protocol.Segment{{N: 1}} }, protocol.CodeInvalid},
		{"other numerics", func(r *protocol.GenerateRequest) { r.Numerics = "metal-x" }, protocol.CodeNumerics},
		{"prompt as long as the context", func(r *protocol.GenerateRequest) { *r = prompt(100, 1, 5) }, protocol.CodeContextLength},
		{"long id", func(r *protocol.GenerateRequest) { r.ID = string(make([]byte, 300)) }, protocol.CodeInvalid},
	}
	e := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{Context: 100})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := prompt(10, 1, 5)
			tt.change(&req)
			err := e.Generate(t.Context(), req, func(protocol.Event) error { t.Error("an event"); return nil })
			if protocol.CodeOf(err) != tt.want {
				t.Errorf("error %v, want one of code %d", err, tt.want)
			}
			if tt.want == protocol.CodeContextLength {
				if pe := err.(*protocol.Error); pe.Have != 100 || pe.Want != 99 {
					t.Errorf("have %d, want %d; want 100 and 99", pe.Have, pe.Want)
				}
			}
		})
	}
}

// mixRequests makes requests that share prefixes, with different sampling.
func mixRequests(rng *rand.Rand, n int) []protocol.GenerateRequest {
	var out []protocol.GenerateRequest
	for i := range n {
		req := prompt(1+rng.IntN(400), int32(rng.IntN(3)), 1+rng.IntN(40))
		req.ID = fmt.Sprint("r", i)
		if rng.IntN(2) == 0 {
			req.Sampling = protocol.Sampling{Temperature: 0.8, TopK: 20, TopP: 0.95, Seed: rng.Uint64()}
		}
		if rng.IntN(2) == 0 {
			req.Checkpoints = []int{rng.IntN(len(req.Tokens) + 1)}
		}
		req.Logprobs = rng.IntN(3) == 0
		out = append(out, req)
	}
	return out
}

// TestInterleavedEqualsSolo: whatever runs at the same time, and whatever is cached, a text is the same.
func TestInterleavedEqualsSolo(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		requests := mixRequests(rng, 12)
		var want []answer
		for _, req := range requests {
			solo := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{})
			want = append(want, ask(t, solo, req))
		}
		for _, limit := range []int64{0, 60_000} {
			e := fake(t, &statetest.Backend{Limit: limit}, Options{}, protocol.LoadRequest{Parallel: 3})
			var wg sync.WaitGroup
			for i, req := range requests {
				wg.Go(func() {
					got := ask(t, e, req)
					if diff := cmp.Diff(want[i].tokens, got.tokens); diff != "" || got.done != want[i].done {
						t.Errorf("seed %d, limit %d, request %d: interleaved text differs: %s", seed, limit, i, diff)
					}
				})
			}
			wg.Wait()
		}
	}
}

func TestMultiTurn(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{})
	one := prompt(300, 1, 20)
	const p = 290 // end of the last user turn
	one.Checkpoints = []int{100, p}
	first := ask(t, e, one)
	if first.started.Cached != 0 || first.started.Miss != "new" {
		t.Fatalf("turn one: %+v", first.started)
	}
	count := func() int64 { st, _ := e.Stats(t.Context()); return st.Prefilled }

	before := count()
	two := prompt(300, 1, 5) // the think block is dropped: turn two shares the first 290 tokens only
	two.Tokens = append(slices.Clone(one.Tokens[:p]), prompt(60, 500, 1).Tokens...)
	two.Prompt = len(two.Tokens)
	got := ask(t, e, two)
	if got.started.Cached != p || count()-before != 60 {
		t.Errorf("turn two without reasoning: %+v and %d tokens prefilled, want %d cached and 60 prefilled", got.started, count()-before, p)
	}

	before = count()
	kept := one // with preserve_thinking it extends all that was computed
	kept.Checkpoints = nil
	kept.Tokens = slices.Concat(one.Tokens, first.ids(), prompt(30, 900, 1).Tokens)
	kept.Prompt = len(kept.Tokens)
	got = ask(t, e, kept)
	if want := len(one.Tokens) + len(first.ids()) - 1; got.started.Cached != want || count()-before != 31 {
		t.Errorf("turn two with reasoning: %d cached and %d prefilled, want %d and 31 (the last token was sampled, not computed)", got.started.Cached, count()-before, want)
	}
}

func TestCancelKeepsThePrefix(t *testing.T) {
	steps := make(chan struct{}, 1)
	b := &statetest.Backend{}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	b.Forward = func([]int32) error {
		select {
		case steps <- struct{}{}:
		default:
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got answer
	err := e.Generate(ctx, prompt(50, 1, 100_000), func(ev protocol.Event) error {
		got.add(t, ev)
		if len(got.tokens) >= 20 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	again := prompt(50, 1, 1)
	again.Tokens = append(again.Tokens, got.ids()...)
	again.Tokens = append(again.Tokens, 5)
	if a := ask(t, e, again); a.started.Cached < 50+19 && a.started.Miss != "no checkpoint" {
		t.Errorf("%+v, want all that was computed, or more than was seen", a.started)
	}
	if st, _ := e.Stats(t.Context()); st.Sessions < 1 || st.Active != 0 {
		t.Errorf("%+v, want the prefix kept and nobody active", st)
	}
}

func TestEmitErrorEndsTheCall(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{})
	mine := errors.New("mine")
	if err := e.Generate(t.Context(), prompt(5, 1, 1000), func(protocol.Event) error { return mine }); err != mine {
		t.Errorf("error %v, want that of emit", err)
	}
}

func TestBackendFailure(t *testing.T) {
	b := &statetest.Backend{}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	calls := 0
	b.Forward = func([]int32) error {
		if calls++; calls == 5 {
			return errors.New("device lost its way")
		}
		return nil
	}
	var got answer
	err := e.Generate(t.Context(), prompt(5, 1, 100), func(ev protocol.Event) error { got.add(t, ev); return nil })
	if protocol.CodeOf(err) != protocol.CodeInternal || len(got.tokens) != 4 {
		t.Errorf("error %v after %d tokens, want one of CodeInternal after 4", err, len(got.tokens))
	}
	again := prompt(5, 1, 10) // the engine still works, and does not go on from the state that failed
	again.Tokens = slices.Concat(again.Tokens, got.ids(), []int32{1, 2, 3})
	if a := ask(t, e, again); a.started.Cached != 0 {
		t.Errorf("%d tokens from a state that failed", a.started.Cached)
	}
}

func TestBadLogitsAreNotCached(t *testing.T) {
	b := &statetest.Backend{Score: func(_ []int32, logits []float32) { logits[9] = float32(math.NaN()) }}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	err := e.Generate(t.Context(), prompt(5, 1, 10), func(protocol.Event) error { return nil })
	if protocol.CodeOf(err) != protocol.CodeInternal {
		t.Errorf("error %v, want one of CodeInternal", err)
	}
	if st, _ := e.Stats(t.Context()); st.Sessions != 0 {
		t.Errorf("%d sequences cached, want none", st.Sessions)
	}
}

func TestNoMemoryForGrowth(t *testing.T) {
	b := &statetest.Backend{Limit: 2*statetest.StateBytes + 4*statetest.BlockBytes}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	var got answer
	err := e.Generate(t.Context(), prompt(40, 1, 1000), func(ev protocol.Event) error { got.add(t, ev); return nil })
	if protocol.CodeOf(err) != protocol.CodeMemory {
		t.Fatalf("error %v, want one of CodeMemory", err)
	}
	if n := 40 + len(got.tokens); n != 4*statetest.Block+1 {
		t.Errorf("%d tokens when memory ran out, want %d", n, 4*statetest.Block+1)
	}
	err = e.Generate(t.Context(), prompt(200, 1, 1), func(protocol.Event) error { return nil })
	if protocol.CodeOf(err) != protocol.CodeMemory {
		t.Errorf("a prompt over the budget: error %v, want one of CodeMemory", err)
	}
	if st, _ := e.Stats(t.Context()); st.Sessions != 1 {
		t.Errorf("%d sequences cached, want the one that could not grow", st.Sessions)
	}
}

func TestComputedFollowsTheSchedule(t *testing.T) {
	b := &statetest.Backend{Chunky: true}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	req := prompt(30, 1, 4)
	req.Schedule = []protocol.Segment{{Kind: protocol.Prefill, N: 7}, {Kind: protocol.Decode, N: 3}, {Kind: protocol.Prefill, N: 10}}
	req.Checkpoints = []int{9, 12}
	got := ask(t, e, req)
	want := append(slices.Clone(req.Schedule), protocol.Segment{Kind: protocol.Prefill, N: 10}, protocol.Segment{Kind: protocol.Decode, N: 3})
	if diff := cmp.Diff(want, got.schedule()); diff != "" {
		t.Errorf("computed: %s", diff)
	}
	if st, _ := e.Stats(t.Context()); st.Checkpoints != 1 { // at 9; 12 is inside a chunk of the schedule
		t.Errorf("%d checkpoints, want 1", st.Checkpoints)
	}
	if state.Length(got.schedule()) != 33 {
		t.Errorf("schedule of %d tokens, want 33", state.Length(got.schedule()))
	}
}
