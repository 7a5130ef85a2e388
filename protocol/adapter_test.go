package protocol_test

import (
	"context"
	"errors"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"lilypad/protocol"
	"lilypad/protocol/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial puts both adapters and a socket in front of an engine. cut breaks the connection as a dying process does.
func dial(t testing.TB, e protocol.Engine) (remote protocol.Engine, cut func()) {
	t.Helper()
	remote, _, cut = dialConn(t, e)
	return remote, cut
}

func dialConn(t testing.TB, e protocol.Engine) (remote protocol.Engine, conn *grpc.ClientConn, cut func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := protocol.NewServer(nil)
	protocol.Register(s, e)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	conn, err = grpc.NewClient("unix://"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32))) // as go-plugin does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		<-served
	})
	return protocol.NewClient(context.Background(), conn), conn, s.Stop
}

// Callers can't tell an engine from its remote twin.
func TestRemoteEqualsLocal(t *testing.T) {
	type answers struct {
		Hello    protocol.Hello
		Info     protocol.ModelInfo
		Progress []protocol.LoadProgress
		IDs      []int32
		Text     string
		Events   []protocol.Event
		Steps    []protocol.ScoreStep
		Stats    protocol.Stats
		Errors   []string
	}
	ask := func(e protocol.Engine) answers {
		var a answers
		ctx := t.Context()
		note := func(err error) {
			if err != nil {
				a.Errors = append(a.Errors, err.Error())
			}
		}
		_, err := e.Tokenize(ctx, nil)
		note(err)
		a.Info, err = e.Load(ctx, protocol.LoadRequest{Model: "dir"}, func(p protocol.LoadProgress) error {
			a.Progress = append(a.Progress, p)
			return nil
		})
		note(err)
		a.Hello, err = e.Hello(ctx)
		note(err)
		a.IDs, err = e.Tokenize(ctx, []protocol.Span{{Text: "héllo<|im_end|>"}, {Text: "<|im_end|>\xff", Literal: true}})
		note(err)
		a.Text, err = e.Detokenize(ctx, a.IDs)
		note(err)
		for range 2 {
			note(e.Generate(ctx, protocol.GenerateRequest{
				ID: "r", Tokens: a.IDs, Prompt: len(a.IDs), MaxTokens: 40, TopLogprobs: 3, Logprobs: true, Checkpoints: []int{4},
				Sampling: protocol.Sampling{Temperature: 1, Seed: 1 << 63, Choice: 3},
			}, func(ev protocol.Event) error { a.Events = append(a.Events, ev); return nil }))
		}
		note(e.Score(ctx, protocol.ScoreRequest{Tokens: a.IDs, From: 1, TopK: 2}, func(s protocol.ScoreStep) error {
			a.Steps = append(a.Steps, s)
			return nil
		}))
		note(e.Generate(ctx, protocol.GenerateRequest{Tokens: make([]int32, 5000), Prompt: 1, MaxTokens: 1}, func(protocol.Event) error { return nil }))
		a.Stats, err = e.Stats(ctx)
		note(err)
		note(e.Drain(ctx))
		note(e.Generate(ctx, protocol.GenerateRequest{Tokens: a.IDs, MaxTokens: 1}, func(protocol.Event) error { return nil }))
		note(e.Unload(ctx))
		return a
	}
	local := ask(fake.New(fake.Options{Unloaded: true}))
	twin, _ := dial(t, fake.New(fake.Options{Unloaded: true}))
	if d := cmp.Diff(local, ask(twin)); d != "" {
		t.Error(d)
	}
	if len(local.Events) < 80 || len(local.Steps) == 0 || len(local.Errors) != 3 {
		t.Errorf("the engine gave %d events, %d steps, errors %q", len(local.Events), len(local.Steps), local.Errors)
	}
}

func TestCancelReachesTheEngine(t *testing.T) {
	engine := fake.New(fake.Options{Faults: fake.Faults{HangIn: fake.PlaceDecode}})
	remote, _ := dial(t, engine)
	ctx, cancel := context.WithCancel(t.Context())
	err := remote.Generate(ctx, protocol.GenerateRequest{Tokens: []int32{1}, MaxTokens: 1}, func(e protocol.Event) error {
		if e.Prefill != nil {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("generate: %v", err)
	}
	for {
		s, err := engine.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Active == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCallbackErrorEndsTheCall(t *testing.T) {
	remote, _ := dial(t, fake.New(fake.Options{}))
	enough := errors.New("enough")
	err := remote.Generate(t.Context(), protocol.GenerateRequest{Tokens: []int32{1}, MaxTokens: 100}, func(protocol.Event) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("generate: %v", err)
	}
}

func TestBrokenConnection(t *testing.T) {
	remote, cut := dial(t, fake.New(fake.Options{Faults: fake.Faults{Slow: time.Millisecond}}))
	n := 0
	err := remote.Generate(t.Context(), protocol.GenerateRequest{Tokens: []int32{1}, MaxTokens: 4000}, func(e protocol.Event) error {
		if n++; n == 5 {
			go cut()
		}
		return nil
	})
	if !errors.Is(err, protocol.ErrWorkerGone) {
		t.Errorf("generate: %v", err)
	}
	if _, err := remote.Hello(t.Context()); !errors.Is(err, protocol.ErrWorkerGone) {
		t.Errorf("hello: %v", err)
	}
}

// go-plugin closes the connection of a dead worker; a call that still waits must not take that for its caller's cancel.
func TestClosedConnection(t *testing.T) {
	remote, conn, _ := dialConn(t, fake.New(fake.Options{Faults: fake.Faults{HangIn: fake.PlaceDecode}}))
	err := remote.Generate(t.Context(), protocol.GenerateRequest{Tokens: []int32{1}, MaxTokens: 1}, func(e protocol.Event) error {
		if e.Prefill != nil {
			conn.Close()
		}
		return nil
	})
	if !errors.Is(err, protocol.ErrWorkerGone) {
		t.Errorf("generate: %v", err)
	}
}

func TestMessageSizes(t *testing.T) {
	remote, _ := dial(t, fake.New(fake.Options{}))
	ids, err := remote.Tokenize(t.Context(), []protocol.Span{{Text: strings.Repeat("a", 6<<20)}})
	if err != nil || len(ids) != 6<<20 {
		t.Errorf("6 MiB of text: %d tokens, %v", len(ids), err)
	}
	_, err = remote.Tokenize(t.Context(), []protocol.Span{{Text: strings.Repeat("a", protocol.MaxMessage+1)}})
	if protocol.CodeOf(err) != protocol.CodeInvalid {
		t.Errorf("%d bytes of text: %v", protocol.MaxMessage+1, err)
	}
}

func BenchmarkToken(b *testing.B) {
	for _, far := range []bool{false, true} {
		name := map[bool]string{false: "local", true: "remote"}[far]
		b.Run(name, func(b *testing.B) {
			info := fake.DefaultInfo()
			info.Context = 1 << 30
			next := func([]int32, int, protocol.Sampling) int32 { return 'a' }
			var e protocol.Engine = fake.New(fake.Options{Info: info, Next: next})
			if far {
				e, _ = dial(b, e)
			}
			b.ReportAllocs()
			err := e.Generate(b.Context(), protocol.GenerateRequest{Tokens: []int32{1}, MaxTokens: b.N}, func(protocol.Event) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
