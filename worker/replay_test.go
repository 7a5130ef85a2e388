package worker

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
	"lilypad/worker/state/statetest"
)

// replays kills nothing, but does what a supervisor does after a death: another engine gets the prompt and the first n
// tokens with their schedule, for every n, and must say the rest bit by bit.
func replays(t *testing.T, start func() *Engine, req protocol.GenerateRequest) {
	t.Helper()
	type seen struct {
		at       int // tokens known after this event
		schedule []protocol.Segment
	}
	var whole answer
	var cuts []seen
	first := start()
	err := first.Generate(t.Context(), req, func(ev protocol.Event) error {
		whole.add(t, ev)
		cuts = append(cuts, seen{len(whole.tokens), whole.schedule()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	numerics := numericsOf(t, first)
	for _, cut := range cuts {
		if cut.at == len(whole.tokens) {
			continue
		}
		again := req
		again.Tokens = append(slices.Clone(req.Tokens), whole.ids()[:cut.at]...)
		again.MaxTokens = req.MaxTokens - cut.at
		again.Schedule, again.Numerics = cut.schedule, numerics
		rest := ask(t, start(), again)
		if diff := cmp.Diff(whole.tokens[cut.at:], rest.tokens); diff != "" || rest.done != whole.done {
			t.Fatalf("replayed after %d tokens of %d: %+v, want %+v: %s", cut.at, len(whole.tokens), rest.done, whole.done, diff)
		}
		if numerics == "test/chunky-fake" {
			if diff := cmp.Diff(whole.schedule(), rest.schedule()); diff != "" {
				t.Fatalf("replayed after %d tokens: schedule: %s", cut.at, diff)
			}
		}
		text := ""
		for _, tok := range whole.tokens[:cut.at] {
			text += tok.Text
		}
		if got := text + rest.text(); got != whole.text() {
			t.Fatalf("replayed after %d tokens: text %q, want %q", cut.at, got, whole.text())
		}
	}
}

func numericsOf(t *testing.T, e *Engine) string {
	h, err := e.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.Numerics
}

func TestReplayAtEveryToken(t *testing.T) {
	// The ids of the bytes of "né€😀": characters of one to four bytes, so that cuts fall inside them.
	var bytes []int32
	for _, b := range []byte("né€😀") {
		id := int32(-1)
		for i := range int32(demoTokenizer.Size()) {
			if raw := demoTokenizer.AppendToken(nil, i); len(raw) == 1 && raw[0] == b {
				id = i
			}
		}
		if id < 0 {
			t.Fatalf("no token for byte %#x", b)
		}
		bytes = append(bytes, id)
	}
	pieces := func(tokens []int32, logits []float32) { statetest.Peak(logits, bytes[len(tokens)%len(bytes)]) }
	sampled := protocol.Sampling{Temperature: 0.9, TopP: 0.95, MinP: 0.01, Seed: 1 << 40, Choice: 2}
	tests := []struct {
		name     string
		chunky   bool
		score    func([]int32, []float32)
		sampling protocol.Sampling
	}{
		{"greedy", false, nil, protocol.Sampling{}},
		{"sampled", false, nil, sampled},
		{"greedy, bits depend on chunks", true, nil, protocol.Sampling{}},
		{"sampled, bits depend on chunks", true, nil, sampled},
		{"parts of characters", false, pieces, protocol.Sampling{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := prompt(150, 3, 40)
			req.Sampling, req.Logprobs, req.TopLogprobs = tt.sampling, true, 2
			req.Checkpoints = []int{100}
			replays(t, func() *Engine {
				return fake(t, &statetest.Backend{Chunky: tt.chunky, Score: tt.score}, Options{}, protocol.LoadRequest{})
			}, req)
		})
	}
}

// TestScheduleMatters: the test above would pass with any schedule if the backend's bits did not depend on it.
func TestScheduleMatters(t *testing.T) {
	req := prompt(150, 3, 10)
	run := func(schedule ...protocol.Segment) []int32 {
		req.Schedule = schedule
		a := ask(t, fake(t, &statetest.Backend{Chunky: true}, Options{}, protocol.LoadRequest{}), req)
		return a.ids()
	}
	if slices.Equal(run(), run(protocol.Segment{Kind: protocol.Prefill, N: 3})) {
		t.Error("two schedules give the same tokens on a backend that depends on them")
	}
}

// TestReplayOnTheSameEngine: with its states still cached, and a schedule that other states do not have.
func TestReplayOnTheSameEngine(t *testing.T) {
	e := fake(t, &statetest.Backend{Chunky: true}, Options{}, protocol.LoadRequest{})
	req := prompt(150, 3, 30)
	req.Checkpoints = []int{90}
	whole := ask(t, e, req)
	again := req
	again.Schedule = []protocol.Segment{{Kind: protocol.Prefill, N: 64}}
	if a := ask(t, e, again); a.started.Cached != 0 || a.started.Miss != "numerics" {
		t.Errorf("another schedule: %+v, want nothing cached because of numerics", a.started)
	}
	again.Schedule = whole.schedule()[:1]
	if a := ask(t, e, again); a.started.Cached != 90 || !slices.Equal(a.ids(), whole.ids()) {
		t.Errorf("the same schedule: %+v, want 90 cached and the same tokens", a.started)
	}
}
