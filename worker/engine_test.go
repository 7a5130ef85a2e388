package worker

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"lilypad/protocol"
	"lilypad/worker/state/statetest"
)

func TestBeforeLoad(t *testing.T) {
	e := New(Options{Log: quiet()})
	ctx := t.Context()
	if h, err := e.Hello(ctx); err != nil || h.Loaded || h.Version != protocol.Version || h.Numerics != "" {
		t.Errorf("hello %+v, error %v", h, err)
	}
	if st, err := e.Stats(ctx); err != nil || !reflect.DeepEqual(st, protocol.Stats{}) {
		t.Errorf("stats %+v, error %v, want zeros", st, err)
	}
	_, tokenizing := e.Tokenize(ctx, []protocol.Span{{Text: "a"}})
	_, detokenizing := e.Detokenize(ctx, []int32{1})
	for name, err := range map[string]error{
		"tokenize": tokenizing, "detokenize": detokenizing,
		"generate": e.Generate(ctx, prompt(1, 1, 1), nil),
		"score":    e.Score(ctx, protocol.ScoreRequest{}, nil),
	} {
		if protocol.CodeOf(err) != protocol.CodeNotLoaded {
			t.Errorf("%s: error %v, want one of CodeNotLoaded", name, err)
		}
	}
	if err := e.Drain(ctx); err != nil {
		t.Error(err)
	}
	if err := e.Unload(ctx); err != nil {
		t.Error(err)
	}
}

func TestLoadRefusals(t *testing.T) {
	tests := []struct {
		name string
		req  protocol.LoadRequest
		want protocol.Code
	}{
		{"unknown backend", protocol.LoadRequest{Backend: "cuda"}, protocol.CodeInvalid},
		{"negative context", protocol.LoadRequest{Context: -1}, protocol.CodeInvalid},
		{"context over the model's", protocol.LoadRequest{Context: 1 << 20}, protocol.CodeInvalid},
		{"negative budget", protocol.LoadRequest{StateBudget: -1}, protocol.CodeInvalid},
		{"too parallel", protocol.LoadRequest{Parallel: 1000}, protocol.CodeInvalid},
		{"no such directory", protocol.LoadRequest{Model: "/nowhere/at/all"}, protocol.CodeCheckpoint},
	}
	e := New(Options{Log: quiet()})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := e.Load(t.Context(), tt.req, nil); protocol.CodeOf(err) != tt.want {
				t.Errorf("error %v, want one of code %d", err, tt.want)
			}
		})
	}
	info, err := e.Load(t.Context(), protocol.LoadRequest{}, nil) // a failed load leaves the engine good
	if err != nil || info.Name != "lilypad-demo" || info.Context != 8192 || info.Vocab != testVocab {
		t.Fatalf("info %+v, error %v", info, err)
	}
	if _, err := e.Load(t.Context(), protocol.LoadRequest{}, nil); protocol.CodeOf(err) != protocol.CodeInvalid {
		t.Errorf("a second load: error %v, want one of CodeInvalid", err)
	}
	if err := e.Unload(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLoadProgress(t *testing.T) {
	mine := errors.New("mine")
	e := New(Options{Log: quiet()})
	if _, err := e.Load(t.Context(), protocol.LoadRequest{}, func(protocol.LoadProgress) error { return mine }); err != mine {
		t.Errorf("error %v, want that of progress", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Load(ctx, protocol.LoadRequest{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	var last protocol.LoadProgress
	info, err := e.Load(t.Context(), protocol.LoadRequest{}, func(p protocol.LoadProgress) error { last = p; return nil })
	if err != nil || last.Done != last.Total || last.Total < 5_000_000 {
		t.Errorf("last progress %+v, error %v, want all bytes", last, err)
	}
	if info.Sampling != (protocol.Sampling{Temperature: 0.3, TopK: 20, TopP: 0.95}) || !slices.Equal(info.StopIDs, []int32{3019, 3021}) {
		t.Errorf("info %+v", info)
	}
	if err := e.Unload(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnloadDuringLoad waits for the load, which can't be interrupted, and undoes it.
func TestUnloadDuringLoad(t *testing.T) {
	e := New(Options{Log: quiet()})
	opening, hold, closed := make(chan struct{}), make(chan struct{}), false
	e.open = func(protocol.LoadRequest, func(done, total int64)) (*opened, error) {
		close(opening)
		<-hold
		return &opened{
			info: protocol.ModelInfo{Vocab: testVocab, Context: 10}, backend: &statetest.Backend{Vocab: testVocab}, tokenizer: demoTokenizer,
			close: func() error { closed = true; return nil },
		}, nil
	}
	loading := make(chan error, 1)
	go func() {
		_, err := e.Load(context.Background(), protocol.LoadRequest{}, nil)
		loading <- err
	}()
	<-opening
	if _, err := e.Load(t.Context(), protocol.LoadRequest{}, nil); protocol.CodeOf(err) != protocol.CodeInvalid {
		t.Errorf("a load during another: error %v, want one of CodeInvalid", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Unload(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("unload with its context over: error %v, want context.Canceled", err)
	}
	close(hold)
	if err := e.Unload(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-loading; err != nil || !closed {
		t.Errorf("load: error %v, closed %v; want a load that was undone", err, closed)
	}
}

func TestTokenizeAndBack(t *testing.T) {
	e := fake(t, &statetest.Backend{}, Options{}, protocol.LoadRequest{})
	ids, err := e.Tokenize(t.Context(), []protocol.Span{{Text: "<|im_start|>user\n"}, {Text: "<|im_start|> is text, né€😀", Literal: true}})
	if err != nil || ids[0] != 3020 || slices.Contains(ids[1:], 3020) {
		t.Fatalf("ids %v, error %v, want the added token once", ids, err)
	}
	text, err := e.Detokenize(t.Context(), ids)
	if want := "<|im_start|>user\n<|im_start|> is text, né€😀"; err != nil || text != want {
		t.Errorf("text %q, error %v, want %q", text, err, want)
	}
	if _, err := e.Detokenize(t.Context(), []int32{-1}); protocol.CodeOf(err) != protocol.CodeInvalid {
		t.Errorf("a negative id: error %v, want one of CodeInvalid", err)
	}
}

func TestScore(t *testing.T) {
	b := &statetest.Backend{Score: func(tokens []int32, logits []float32) {
		for i := range logits {
			logits[i] = 0
		}
		logits[len(tokens)] = 20 // all but certain: the number of tokens
	}}
	e := fake(t, b, Options{}, protocol.LoadRequest{})
	tokens := prompt(300, 1, 1).Tokens
	for i := 200; i < 300; i++ {
		tokens[i] = int32(i)
	}
	for _, from := range []int{1, 150, 200, 299, 300} {
		next := from
		err := e.Score(t.Context(), protocol.ScoreRequest{Tokens: tokens, From: from, TopK: 3}, func(s protocol.ScoreStep) error {
			if s.Position != next || len(s.Top) != 3 || s.Top[0].ID != int32(next) {
				t.Fatalf("from %d: step %+v, want position %d and its number on top", from, s, next)
			}
			right := next >= 200 // tokens that are their own position, and the end
			if (s.Logprob > -0.01) != right {
				t.Fatalf("from %d: position %d has log-probability %v", from, s.Position, s.Logprob)
			}
			next++
			return nil
		})
		if err != nil || next != 301 {
			t.Errorf("from %d: error %v, last position %d, want 300", from, err, next-1)
		}
	}
	bad := []protocol.ScoreRequest{
		{Tokens: tokens, From: 0, TopK: 1}, {Tokens: tokens, From: 301, TopK: 1}, {Tokens: tokens, From: 1, TopK: 0},
		{Tokens: tokens, From: 1, TopK: math.MaxInt}, {From: 1, TopK: 1}, {Tokens: []int32{-1}, From: 1, TopK: 1},
	}
	for _, req := range bad {
		if err := e.Score(t.Context(), req, nil); protocol.CodeOf(err) != protocol.CodeInvalid {
			t.Errorf("from %d, top %d: error %v, want one of CodeInvalid", req.From, req.TopK, err)
		}
	}
	if st, _ := e.Stats(t.Context()); st.Sessions != 0 {
		t.Errorf("%d sequences kept after scoring, want none", st.Sessions)
	}
}

func TestDefaultBudget(t *testing.T) {
	const gb = 1 << 30
	tests := []struct {
		name                  string
		memory, weights, want int64
	}{
		{"a quarter of the rest", 24 * gb, 4 * gb, 5 * gb},
		{"weights as large as memory", 16 * gb, 20 * gb, leastBudget},
		{"unknown", 0, 4 * gb, blindBudget},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := defaultBudget(tt.memory, tt.weights); got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
	if n := physicalMemory(); n < 64<<20 {
		t.Errorf("this machine has %d bytes of memory", n)
	}
}
