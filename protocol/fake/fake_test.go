package fake

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"lilypad/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a generation gave.
type answer struct {
	started  protocol.Started
	ids      []int32
	text     string
	computed []protocol.Segment
	done     protocol.Done
	err      error
}

func generate(e protocol.Engine, req protocol.GenerateRequest) answer {
	var a answer
	a.err = e.Generate(context.Background(), req, func(ev protocol.Event) error {
		if ev.Started != nil {
			a.started = *ev.Started
		}
		for _, t := range ev.Tokens {
			a.ids = append(a.ids, t.ID)
			a.text += t.Text
		}
		for _, s := range ev.Computed {
			a.computed = extend(a.computed, s)
		}
		if ev.Done != nil {
			a.done = *ev.Done
			a.text += ev.Done.Text
		}
		return nil
	})
	return a
}

func prompt(text string) protocol.GenerateRequest {
	ids := Tokenize(protocol.Span{Text: text})
	return protocol.GenerateRequest{Tokens: ids, Prompt: len(ids), MaxTokens: 60, StopIDs: []int32{ImEnd}}
}

func sum(s []protocol.Segment) (n int) {
	for _, s := range s {
		n += s.N
	}
	return n
}

func TestScript(t *testing.T) {
	const text = "héllo 日本 😀 <think>x</think>"
	a := generate(New(Options{Next: Script(text)}), prompt("question"))
	if a.err != nil || a.text != text || a.done.Reason != protocol.StopToken || a.done.StopID != ImEnd {
		t.Errorf("answer %+v", a)
	}
}

// A replay after any number of tokens, with the schedule so far, gives the same tokens, text and schedule.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := prompt(rapid.StringN(1, 200, 300).Draw(t, "prompt"))
		req.MaxTokens = rapid.IntRange(1, 80).Draw(t, "max")
		req.Sampling = protocol.Sampling{Temperature: 1, Seed: rapid.Uint64().Draw(t, "seed")}
		whole := generate(New(Options{}), req)
		k := rapid.IntRange(0, len(whole.ids)-1).Draw(t, "lost after")

		again := req
		again.Tokens = slices.Concat(req.Tokens, whole.ids[:k])
		again.Schedule = cut(whole.computed, len(again.Tokens))
		again.MaxTokens = req.MaxTokens - k
		rest := generate(New(Options{}), again)
		if d := cmp.Diff(whole.ids[k:], rest.ids); d != "" || rest.err != nil {
			t.Fatal(rest.err, d)
		}
		if d := cmp.Diff(whole.computed, rest.computed); d != "" {
			t.Fatal(d)
		}
		var first decoder
		text := ""
		for _, id := range whole.ids[:k] {
			text += first.next(id)
		}
		if text+rest.text != whole.text {
			t.Fatalf("text %q + %q, want %q", text, rest.text, whole.text)
		}
		if n := sum(whole.computed); n != len(req.Tokens)+len(whole.ids)-1 {
			t.Fatalf("computed %d tokens of %d + %d", n, len(req.Tokens), len(whole.ids))
		}
	})
}

func TestReuse(t *testing.T) {
	e := New(Options{Chunk: 8})
	steps := []struct {
		name        string
		text        string
		checkpoints []int
		cached      int
		miss        string
	}{
		{"first", "aaaaaaaaaaaaaaaaaaaaBBBB", []int{10, 20}, 0, "new"},
		{"same again", "aaaaaaaaaaaaaaaaaaaaBBBB", nil, 20, "no checkpoint"},
		{"branch at the checkpoint", "aaaaaaaaaaaaaaaaaaaaCCCC", nil, 20, "diverged"},
		{"branch before it", "aaaaaaaaaaaaaaaXXXX", nil, 10, "no checkpoint"},
		{"another", "zzz", nil, 0, "new"},
	}
	for _, s := range steps {
		req := prompt(s.text)
		req.Checkpoints, req.MaxTokens = s.checkpoints, 1
		a := generate(e, req)
		if a.err != nil || a.started.Cached != s.cached || a.started.Miss != s.miss || sum(a.started.Schedule) != s.cached ||
			sum(a.computed) != len(s.text)-s.cached {
			t.Errorf("%s: cached %d miss %q, want %d %q; %+v", s.name, a.started.Cached, a.started.Miss, s.cached, s.miss, a)
		}
	}
	req := prompt("the whole sequence goes on")
	a := generate(e, req)
	req.Tokens = append(req.Tokens, a.ids...)
	req.Tokens = append(req.Tokens, 'n')
	req.Prompt = len(req.Tokens)
	if b := generate(e, req); b.started.Cached != len(req.Tokens)-2 || b.started.Miss != "new" {
		t.Errorf("next turn: cached %d of %d, miss %q", b.started.Cached, len(req.Tokens), b.started.Miss)
	}
}

func TestRefusals(t *testing.T) {
	ok := prompt("text")
	tests := []struct {
		name   string
		change func(*protocol.GenerateRequest)
		code   protocol.Code
	}{
		{"no tokens", func(r *protocol.GenerateRequest) { r.Tokens, r.Prompt = nil, 0 }, protocol.CodeInvalid},
		{"unknown id", func(r *protocol.GenerateRequest) { r.Tokens = []int32{100000}; r.Prompt = 1 }, protocol.CodeInvalid},
		{"nothing wanted", func(r *protocol.GenerateRequest) { r.MaxTokens = 0 }, protocol.CodeInvalid},
		{"long schedule", func(r *protocol.GenerateRequest) {
			r.Schedule = []protocol.Segment{{Kind: protocol.Prefill, N: 5}}
		}, protocol.CodeInvalid},
		{"too long", func(r *protocol.GenerateRequest) { r.Tokens = make([]int32, 4096); r.Prompt = 4096 }, protocol.CodeContextLength},
		{"other numerics", func(r *protocol.GenerateRequest) { r.Numerics = "metal" }, protocol.CodeNumerics},
	}
	for _, tt := range tests {
		req := ok
		tt.change(&req)
		if a := generate(New(Options{}), req); protocol.CodeOf(a.err) != tt.code {
			t.Errorf("%s: %v, want code %d", tt.name, a.err, tt.code)
		}
	}
	if a := generate(New(Options{Unloaded: true}), ok); protocol.CodeOf(a.err) != protocol.CodeNotLoaded {
		t.Errorf("not loaded: %v", a.err)
	}
	full := prompt(strings.Repeat("x", 4090))
	if a := generate(New(Options{}), full); a.done.Reason != protocol.ContextEnd || len(a.ids) != 6 {
		t.Errorf("at the end of the context: %+v, %d tokens", a.done, len(a.ids))
	}
}

func TestDeathInProcess(t *testing.T) {
	tests := []struct {
		faults string
		tokens int
	}{
		{"die_at=0", 0}, {"die_at=5", 5}, {"die_in=prefill", 0}, {"die_on_prompt=poison", 0}, {"die_in=done", 60},
	}
	for _, tt := range tests {
		f, err := ParseFaults(tt.faults)
		if err != nil {
			t.Fatal(err)
		}
		deaths := 0
		e := New(Options{Faults: f, OnDeath: func() { deaths++ }})
		a := generate(e, prompt("a poisoned text"))
		if !errors.Is(a.err, protocol.ErrWorkerGone) || len(a.ids) != tt.tokens || deaths != 1 {
			t.Errorf("%s: %d tokens, %d deaths, %v", tt.faults, len(a.ids), deaths, a.err)
		}
		if _, err := e.Hello(t.Context()); !errors.Is(err, protocol.ErrWorkerGone) {
			t.Errorf("%s: hello after death: %v", tt.faults, err)
		}
	}
}

// A death from outside ends calls that hang or sleep, and Drain.
func TestDie(t *testing.T) {
	for _, spec := range []string{"hang_in=decode", "slow=1h"} {
		f, err := ParseFaults(spec)
		if err != nil {
			t.Fatal(err)
		}
		e := New(Options{Faults: f})
		time.AfterFunc(10*time.Millisecond, e.Die)
		if a := generate(e, prompt("x")); !errors.Is(a.err, protocol.ErrWorkerGone) {
			t.Errorf("%s: %v", spec, a.err)
		}
	}
}

func TestDrain(t *testing.T) {
	e := New(Options{Faults: Faults{HangIn: PlaceDecode}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	began := make(chan bool, 1)
	go func() {
		ended <- e.Generate(ctx, prompt("x"), func(ev protocol.Event) error {
			if ev.Prefill != nil {
				began <- true
			}
			return nil
		})
	}()
	<-began
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := e.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain with a running generation: %v", err)
	}
	if a := generate(e, prompt("x")); protocol.CodeOf(a.err) != protocol.CodeDraining {
		t.Errorf("generate while draining: %v", a.err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled generation: %v", err)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Errorf("drain: %v", err)
	}
}

func TestParseFaults(t *testing.T) {
	got, err := ParseFaults("die_at=3,how=SEGV,once=/x,slow=5ms,big_msg=7,hang_in=load,garbage_stdout,garbage_stderr,leak_grandchild,die_in=prefill,die_on_prompt=p")
	want := Faults{
		Die: true, DieAt: 3, How: "SEGV", Once: "/x", Slow: 5 * time.Millisecond, BigMessage: 7, HangIn: PlaceLoad, GarbageStdout: true,
		GarbageStderr: true, LeakGrandchild: true, DieIn: PlacePrefill, DieOnPrompt: "p",
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"die_at=x", "slow=5", "nonsense"} {
		if _, err := ParseFaults(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
