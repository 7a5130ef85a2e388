package generate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lilypad/protocol"
	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

// tale passes everything that a seam could hurt: reasoning, the marker, characters of two to four bytes, half a stop string and
// a whole one.
const tale = "Let me thïnk.</think>\n\nSTO, not yet. Wörld 日本語 😀 ST STOP and this is never seen"

var cases = []struct {
	name     string
	text     string
	thinking bool
	stop     []string
	max      int
}{
	{"stop string", tale, true, []string{"STOP", "never"}, 0},
	{"stop token", "Wörld 日本語 😀", false, []string{"STOP"}, 0},
	{"length inside a character", "日本語", false, nil, 5},
	{"length at the end", "日本", false, nil, 6},
	{"one token", "x", false, nil, 1},
	{"never closed thinking", "hm hm é", true, []string{"hm"}, 0},
	{"nothing", "", false, nil, 0},
}

func TestDeathAtEveryTokenChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := func() Request {
				r := request(c.thinking, c.stop...)
				r.MaxTokens = c.max
				return r
			}
			want, err := collect(t.Context(), script(c.text), req())
			if err != nil {
				t.Fatal(err)
			}
			t.Log(want)
			faults := []fake.Faults{{DieIn: fake.PlacePrefill}, {DieIn: fake.PlaceDone}}
			for k := range want.result.Tokens + 1 {
				faults = append(faults, dieAt(k))
			}
			for _, f := range faults {
				r := script(c.text, f)
				got, err := collect(t.Context(), r, req())
				if err != nil {
					t.Fatalf("%+v: %v", f, err)
				}
				if got.String() != want.String() || got.result.Reasoning != want.result.Reasoning {
					t.Errorf("%+v: got %v, want %v", f, got, want)
				}
				for _, x := range got.result.Recoveries {
					if !x.Exact || x.Incarnation != 2 || x.Cause != process.Crash {
						t.Errorf("%+v: recovery %+v", f, x)
					}
				}
			}
		})
	}
}

func TestManyDeaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "length")
		text := ""
		for range n {
			text += rapid.SampledFrom([]string{"a", "é", "日", "S", "ST", "STOP", "</think>", "😀"}).Draw(t, "part")
		}
		max := rapid.IntRange(0, 50).Draw(t, "max")
		req := func() Request {
			r := request(true, "STOP", "TO")
			r.MaxTokens = max
			return r
		}
		want, err := collect(context.Background(), script(text), req())
		if err != nil {
			t.Fatal(err)
		}
		var faults []fake.Faults
		for range rapid.IntRange(0, 8).Draw(t, "deaths") {
			faults = append(faults, dieAt(rapid.IntRange(0, 5).Draw(t, "tokens")))
		}
		got, err := collect(context.Background(), script(text, faults...), req())
		if !strings.HasPrefix(want.reasoning, got.reasoning) || !strings.HasPrefix(want.content, got.content) {
			t.Fatalf("got %v, which does not begin %v", got, want)
		}
		var failed *Error
		switch {
		case err == nil && got.String() != want.String():
			t.Fatalf("got %v, want %v", got, want)
		case err != nil && (!errors.As(err, &failed) || failed.Code != EngineCrashed || !failed.Poison || failed.Tokens != got.result.Tokens):
			t.Fatalf("got %#v", err)
		}
	})
}

func TestReplayFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	r := script("abcdefgh", dieAt(3), dieAt(2))
	req := request(false)
	req.MaxTokens, req.Checkpoints = 7, []int{5}
	got, err := collect(t.Context(), r, req)
	if err != nil || got.content != "abcdefg" {
		t.Fatalf("got %v, %v", got, err)
	}
	tokens := fake.Tokenize(protocol.Span{Text: "questionabcde"})
	want := func(tokens []int32, max int, schedule ...protocol.Segment) protocol.GenerateRequest {
		g := protocol.GenerateRequest{ID: id, Tokens: tokens, Prompt: 8, MaxTokens: max, StopIDs: fake.DefaultInfo().StopIDs,
			Sampling: protocol.Sampling{Seed: 7}, Checkpoints: []int{5}, Schedule: schedule}
		if schedule != nil {
			g.Numerics = "fake/1"
		}
		return g
	}
	// The prompt goes in chunks of 4, cut at the checkpoint.
	p := func(n int) protocol.Segment { return protocol.Segment{Kind: protocol.Prefill, N: n} }
	d := func(n int) protocol.Segment { return protocol.Segment{Kind: protocol.Decode, N: n} }
	if diff := cmp.Diff([]protocol.GenerateRequest{
		want(tokens[:8], 7),
		want(tokens[:11], 4, p(4), p(1), p(3), d(3)),
		want(tokens[:13], 2, p(4), p(1), p(3), d(5)),
	}, r.requests); diff != "" {
		t.Error(diff)
	}
	if n := got.result.Replayed; n != 11+13 {
		t.Errorf("%d tokens replayed, want 24", n)
	}
}

func TestDeathInTheMiddleOfAReplayKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	r := script("abcdefgh", dieAt(3), fake.Faults{DieIn: fake.PlacePrefill})
	r.verdict = func(int) process.Verdict { return process.Verdict{Cause: process.Killed} }
	got, err := collect(t.Context(), r, request(false))
	if err != nil || got.content != "abcdefgh" || len(r.requests) != 3 {
		t.Fatalf("got %v, %v after %d requests", got, err, len(r.requests))
	}
	if diff := cmp.Diff(r.requests[1], r.requests[2]); diff != "" {
		t.Error(diff)
	}
}

func TestOtherArithmeticIsDeclared(t *testing.T) {
	t.Parallel()
	r := script("abcdef", dieAt(3))
	base := r.options
	r.options = func(n int) fake.Options {
		o := base(n)
		o.Info = fake.DefaultInfo()
		if n > 1 {
			o.Info.Numerics = "fake/2"
		}
		return o
	}
	got, err := collect(t.Context(), r, request(false))
	if err != nil || got.content != "abcdef" {
		t.Fatalf("got %v, %v", got, err)
	}
	if x := got.result.Recoveries; len(x) != 1 || x[0].Exact || x[0].Tokens != 3 {
		t.Errorf("recoveries %+v", x)
	}
	if q := r.requests[1]; q.Numerics != "" || q.Schedule != nil {
		t.Errorf("replayed with %q and %v", q.Numerics, q.Schedule)
	}
}

func TestAnotherCheckpointEndsTheGeneration(t *testing.T) {
	t.Parallel()
	r := script("abcdef", dieAt(3))
	base := r.options
	r.options = func(n int) fake.Options {
		o := base(n)
		o.Info = fake.DefaultInfo()
		o.Info.CheckpointID = []string{"", "one", "two"}[n]
		return o
	}
	got, err := collect(t.Context(), r, request(false))
	var e *Error
	if !errors.As(err, &e) || e.Code != EngineCrashed || got.content != "abc" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	many := func(n int, f fake.Faults) []fake.Faults { return slices.Repeat([]fake.Faults{f}, n) }
	for _, c := range []struct {
		name    string
		faults  []fake.Faults
		verdict process.Verdict
		code    Code // empty: the whole text arrives
		poison  bool
		workers int
	}{
		{"five deaths at different tokens", many(5, dieAt(1)), process.Verdict{Cause: process.Panic, Beat: protocol.Beat{Request: id}}, "", false, 6},
		{"one charged death without a token", many(1, dieAt(0)), process.Verdict{Cause: process.Panic, Beat: protocol.Beat{Request: id}}, "", false, 2},
		{"two charged deaths", many(9, dieAt(0)), process.Verdict{Cause: process.Panic, Beat: protocol.Beat{Request: id}}, EngineCrashed, true, 2},
		{"two stalls", many(9, dieAt(0)), process.Verdict{Cause: process.Stalled, Beat: protocol.Beat{Request: id}}, EngineStalled, true, 2},
		{"two GPU faults", many(9, dieAt(0)), process.Verdict{Cause: process.GPUFault, Beat: protocol.Beat{Request: id}}, GPUError, true, 2},
		{"two deaths charged to another", many(2, dieAt(0)), process.Verdict{Cause: process.Crash, Beat: protocol.Beat{Request: "req_other"}}, "", false, 3},
		{"three deaths charged to another", many(9, dieAt(0)), process.Verdict{Cause: process.Crash, Beat: protocol.Beat{Request: "req_other"}}, EngineCrashed, false, 3},
		{"two kills from outside", many(2, dieAt(0)), process.Verdict{Cause: process.Killed, Beat: protocol.Beat{Request: id}}, "", false, 3},
		{"three kills from outside", many(9, dieAt(0)), process.Verdict{Cause: process.Killed, Beat: protocol.Beat{Request: id}}, EngineCrashed, false, 3},
		{"three times out of memory", many(9, dieAt(0)), process.Verdict{Cause: process.Jetsam, Beat: protocol.Beat{Request: id}}, EngineOOM, false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := script("abcdefgh", c.faults...)
			r.verdict = func(int) process.Verdict { return c.verdict }
			got, err := collect(t.Context(), r, request(false))
			if r.count != c.workers {
				t.Errorf("%d workers, want %d", r.count, c.workers)
			}
			var e *Error
			switch {
			case c.code == "" && (err != nil || got.content != "abcdefgh"):
				t.Errorf("got %v, %v", got, err)
			case c.code != "" && (!errors.As(err, &e) || e.Code != c.code || e.Poison != c.poison || e.Retryable == c.poison || e.Incarnation != c.workers):
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestNoWorkerComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := script("abc", dieAt(1))
		r.verdict = func(int) process.Verdict { r.none = true; return process.Verdict{Cause: process.Killed} }
		got, err := collect(t.Context(), r, request(false))
		var e *Error
		if !errors.As(err, &e) || e.Code != EngineRestarting || e.Tokens != 1 || got.content != "a" {
			t.Errorf("got %v, %v", got, err)
		}
		if waited := time.Since(began); waited != recoveryTime {
			t.Errorf("waited %v, want %v", waited, recoveryTime)
		}
	})
}

func TestAReplayThatHangsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := script("abc", dieAt(1), fake.Faults{HangIn: fake.PlacePrefill})
		_, err := collect(t.Context(), r, request(false))
		var e *Error
		if !errors.As(err, &e) || e.Code != EngineStalled || e.Tokens != 1 {
			t.Errorf("got %v", err)
		}
	})
}

func TestALongReplayThatMovesGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := script("abc", dieAt(1), fake.Faults{Slow: 20 * time.Second})
		req := request(false)
		req.KeepAlive = 10 * time.Second
		got, err := collect(t.Context(), r, req)
		if err != nil || got.content != "abc" {
			t.Errorf("got %v, %v", got, err)
		}
		if got.signs < 4 {
			t.Errorf("%d signs of life in a recovery of over a minute", got.signs)
		}
	})
}

func TestSignsOfLifeAreHonest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		faults   fake.Faults
		min, max int
	}{
		{"a hang in decode has none after the last progress", fake.Faults{HangIn: fake.PlaceDecode}, 0, 1},
		{"a hang in prefill has none", fake.Faults{HangIn: fake.PlacePrefill}, 0, 0},
		{"a slow prefill has them", fake.Faults{Slow: 9 * time.Second}, 1, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				req := request(false)
				req.KeepAlive = 10 * time.Second
				got, _ := collect(ctx, script("abc", c.faults), req)
				if got.signs < c.min || got.signs > c.max {
					t.Errorf("%d signs of life, want %d to %d", got.signs, c.min, c.max)
				}
			})
		})
	}
}

func TestFirstSignComesSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		req := request(false)
		req.KeepAlive = 10 * time.Second
		var first time.Duration
		done := errors.New("seen")
		_, err := Run(t.Context(), &rig{none: true}, req, func(u Update) error { first = time.Since(began); return done })
		if !errors.Is(err, done) || first != firstSign {
			t.Errorf("first sign after %v: %v", first, err)
		}
	})
}

func TestASlowClientNeverHoldsTheWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("abcdefghij", 300)
		r := script(text)
		var updates int
		var content strings.Builder
		result, err := Run(t.Context(), r, request(false), func(u Update) error {
			updates++
			content.WriteString(u.Content)
			time.Sleep(time.Hour)
			if stats, _ := r.engine.Stats(t.Context()); stats.Active != 0 {
				t.Error("the worker waits for the client")
			}
			return nil
		})
		if err != nil || content.String() != text || result.Tokens != len(text) || updates > 3 {
			t.Errorf("%d bytes in %d updates: %v", content.Len(), updates, err)
		}
	})
}

func TestTheClientEndsIt(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection closed")
	r := script("abcdefghijklmnopqrstuvwxyz")
	_, err := Run(t.Context(), r, request(false), func(u Update) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}

	synctest.Test(t, func(t *testing.T) {
		r := script("abcdefghijklmnopqrstuvwxyz", fake.Faults{Slow: time.Second})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10500*time.Millisecond, ErrCancelled)
		defer cancel()
		began := time.Now()
		got, err := collect(ctx, r, request(false))
		var e *Error
		if !errors.As(err, &e) || e.Code != Cancelled || e.Tokens != len(got.content) || e.Tokens == 0 {
			t.Errorf("got %v, %v", got, err)
		}
		if took := time.Since(began); took != 10500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestAStopStringEndsTheCall(t *testing.T) {
	t.Parallel()
	r := script("abcSTOPdefghijklmnopqrstuvwxyz")
	got, err := collect(t.Context(), r, request(false, "STOP"))
	if err != nil || got.content != "abc" || got.result.Finish != Stop || got.result.Tokens != 7 {
		t.Errorf("got %v, %v", got, err)
	}
	if n := len(r.events); n > 12 {
		t.Errorf("the engine went on for %d events", n)
	}
}

func TestEngineErrors(t *testing.T) {
	t.Parallel()
	r := script("abc")
	req := request(false)
	req.Tokens = slices.Repeat(req.Tokens, 600)
	_, err := collect(t.Context(), r, req)
	var e *Error
	if !errors.As(err, &e) || e.Code != ContextLength || e.Have != 4800 || e.Want != 4096 {
		t.Errorf("got %#v", err)
	}
	req.Tokens = []int32{-5}
	if _, err = collect(t.Context(), r, req); !errors.As(err, &e) || e.Code != Internal {
		t.Errorf("got %#v", err)
	}
}

func TestCallOnAWorkerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := script("")
		calls := 0
		err := Call(t.Context(), r, time.Second, func(ctx context.Context, w *process.Worker) error {
			if calls++; calls == 1 {
				time.AfterFunc(callTime+time.Second, r.engine.Die)
				<-ctx.Done()
			}
			return ctx.Err()
		})
		if err != nil || calls != 2 {
			t.Errorf("%d calls: %v", calls, err)
		}
	})
}

func TestCall(t *testing.T) {
	t.Parallel()
	r := script("")
	calls := 0
	err := Call(t.Context(), r, time.Second, func(ctx context.Context, w *process.Worker) error {
		calls++
		if calls == 1 {
			r.engine.Die()
		}
		_, err := w.Engine.Tokenize(ctx, nil)
		return err
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls: %v", calls, err)
	}
	err = Call(t.Context(), r, time.Second, func(ctx context.Context, w *process.Worker) error {
		calls++
		r.engine.Die()
		return context.Canceled
	})
	var e *Error
	if !errors.As(err, &e) || e.Code != EngineCrashed || e.Retryable || calls != 4 {
		t.Errorf("%d calls: %v", calls, err)
	}
	if err = Call(t.Context(), &rig{none: true}, time.Millisecond, nil); !errors.As(err, &e) || e.Code != EngineRestarting {
		t.Errorf("got %v", err)
	}
}
