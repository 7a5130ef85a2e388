package generate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"lilypad/protocol"
	"lilypad/protocol/fake"
	"lilypad/supervisor/chat"
	"lilypad/supervisor/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "req_test"

// rig hands out fake workers, the next one when the last has died.
type rig struct {
	options func(incarnation int) fake.Options // nil Next means script
	verdict func(incarnation int) process.Verdict
	none    bool // no worker comes

	mu       sync.Mutex
	worker   *process.Worker
	engine   *fake.Engine
	count    int
	requests []protocol.GenerateRequest
	events   []protocol.Event
}

// recorder keeps what goes through an engine.
type recorder struct {
	protocol.Engine
	rig *rig
}

func (r recorder) Generate(ctx context.Context, req protocol.GenerateRequest, emit func(protocol.Event) error) error {
	r.rig.mu.Lock()
	r.rig.requests = append(r.rig.requests, req)
	r.rig.mu.Unlock()
	return r.Engine.Generate(ctx, req, func(e protocol.Event) error {
		r.rig.mu.Lock()
		r.rig.events = append(r.rig.events, e)
		r.rig.mu.Unlock()
		return emit(e)
	})
}

func (r *rig) Worker(ctx context.Context) (*process.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.none {
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return nil, ctx.Err()
	}
	if r.worker != nil {
		select {
		case <-r.worker.Gone():
		default:
			return r.worker, nil
		}
	}
	r.count++
	n := r.count
	opt := r.options(n)
	var die func(process.Verdict)
	opt.OnDeath = func() {
		v := process.Verdict{Cause: process.Crash, Beat: protocol.Beat{Request: id, Phase: protocol.PhaseDecode}}
		if r.verdict != nil {
			v = r.verdict(n)
		}
		v.Incarnation = n
		die(v)
	}
	if opt.Info.Vocab == 0 {
		opt.Info = fake.DefaultInfo()
	}
	r.engine = fake.New(opt)
	r.worker, die = process.Attach(recorder{r.engine, r}, opt.Info, n)
	return r.worker, nil
}

// script makes workers that answer with text; faults are those of the incarnation, none after the last.
func script(text string, faults ...fake.Faults) *rig {
	return &rig{options: func(n int) fake.Options {
		o := fake.Options{Next: fake.Script(text), Chunk: 4}
		if n <= len(faults) {
			o.Faults = faults[n-1]
		}
		return o
	}}
}

func dieAt(tokens int) fake.Faults { return fake.Faults{Die: true, DieAt: tokens} }

func request(thinking bool, stop ...string) Request {
	return Request{ID: id, Tokens: fake.Tokenize(protocol.Span{Text: "question"}), Stop: stop, Split: chat.NewSplit(fake.DefaultInfo().Added, thinking),
		Sampling: protocol.Sampling{Seed: 7}}
}

// answer is what a client got.
type answer struct {
	reasoning, content string
	begins, signs      int
	result             Result
}

func (a answer) String() string {
	return fmt.Sprintf("%q / %q (%s, %d tokens)", a.reasoning, a.content, a.result.Finish, a.result.Tokens)
}

func collect(ctx context.Context, r Source, req Request) (a answer, err error) {
	var reasoning, content strings.Builder
	a.result, err = Run(ctx, r, req, func(u Update) error {
		reasoning.WriteString(u.Reasoning)
		content.WriteString(u.Content)
		if u.Begin != nil {
			a.begins++
		} else if u.Reasoning == "" && u.Content == "" {
			a.signs++
		}
		return nil
	})
	a.reasoning, a.content = reasoning.String(), content.String()
	return a, err
}
