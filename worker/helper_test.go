package worker

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"lilypad/protocol"
	demomodel "lilypad/scripts/demo-model"
	"lilypad/worker/state"
	"lilypad/worker/state/statetest"
	"lilypad/worker/tokenizer"
)

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		os.Exit(runWorker())
	}
	goleak.VerifyTestMain(m)
}

const testVocab = 3072 // rows of the demo model's head

var demoTokenizer = func() *tokenizer.Tokenizer {
	data, err := demomodel.FS().Open("tokenizer.json")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	defer data.Close()
	text, err := io.ReadAll(data)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	t, err := tokenizer.Parse(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}()

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// fake starts an engine over a test backend and checks at the end that nothing of it is left.
func fake(t *testing.T, b *statetest.Backend, opt Options, req protocol.LoadRequest) *Engine {
	t.Helper()
	return fakeOver(t, b, b, opt, req)
}

// fakeOver is fake with a backend that wraps b.
func fakeOver(t *testing.T, backend state.Backend, b *statetest.Backend, opt Options, req protocol.LoadRequest) *Engine {
	t.Helper()
	b.Vocab = testVocab
	opt.Log = quiet()
	e := New(opt)
	if req.Context == 0 {
		req.Context = 4096
	}
	e.open = func(req protocol.LoadRequest, progress func(done, total int64)) (*opened, error) {
		progress(50, 100)
		progress(100, 100)
		return &opened{
			info:    protocol.ModelInfo{Name: "fake", Numerics: b.Kernels() + "-fake", Context: req.Context, Vocab: testVocab},
			backend: backend, name: "fake", budget: b.Limit, tokenizer: demoTokenizer, close: b.Close,
		}, nil
	}
	if _, err := e.Load(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Unload(context.Background()); err != nil {
			t.Error(err)
		}
		if b.Alive() != 0 || b.Bytes() != 0 {
			t.Errorf("%d states and %d bytes left after Unload", b.Alive(), b.Bytes())
		}
	})
	return e
}

// demo starts an engine over the embedded checkpoint.
func demo(t testing.TB, req protocol.LoadRequest) *Engine {
	t.Helper()
	e := New(Options{Log: quiet()})
	if _, err := e.Load(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Unload(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// answer is what a generation said, put together.
type answer struct {
	started  protocol.Started
	tokens   []protocol.Token
	computed []protocol.Segment
	done     protocol.Done
}

func (a *answer) ids() []int32 {
	var ids []int32
	for _, t := range a.tokens {
		ids = append(ids, t.ID)
	}
	return ids
}

func (a *answer) text() string {
	var b strings.Builder
	for _, t := range a.tokens {
		b.WriteString(t.Text)
	}
	return b.String() + a.done.Text
}

// schedule is how the whole sequence was computed.
func (a *answer) schedule() []protocol.Segment {
	all := slices.Clone(a.started.Schedule)
	for _, s := range a.computed {
		all = state.Append(all, s)
	}
	return all
}

// add takes in an event.
func (a *answer) add(t testing.TB, ev protocol.Event) {
	t.Helper()
	if ev.Started != nil {
		a.started = *ev.Started
	}
	a.tokens = append(a.tokens, ev.Tokens...)
	for _, s := range ev.Computed {
		a.computed = state.Append(a.computed, s)
	}
	if ev.Done != nil {
		a.done = *ev.Done
	}
}

func ask(t testing.TB, e protocol.Engine, req protocol.GenerateRequest) answer {
	t.Helper()
	var a answer
	if err := e.Generate(context.Background(), req, func(ev protocol.Event) error { a.add(t, ev); return nil }); err != nil {
		t.Fatal(err)
	}
	if a.done.Reason == 0 {
		t.Fatal("the generation ended without Done")
	}
	if n := state.Length(a.schedule()); n != len(req.Tokens)+max(len(a.tokens)-1, 0) && n != len(req.Tokens)+len(a.tokens) {
		t.Fatalf("the schedule covers %d tokens of %d and %d new ones", n, len(req.Tokens), len(a.tokens))
	}
	return a
}

// prompt is a request with the demo model's ids from seed on.
func prompt(n int, seed int32, maxTokens int) protocol.GenerateRequest {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = (seed + int32(i)*7) % 3000
	}
	return protocol.GenerateRequest{ID: "r", Tokens: tokens, Prompt: n, MaxTokens: maxTokens}
}

// eventually waits until ok, for things that have no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
