package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"lilypad/protocol"
	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

func TestMain(m *testing.M) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	goleak.VerifyTestMain(m)
}

// rig hands out fake workers, the next one when the last has died.
type rig struct {
	text   string        // what the model answers
	faults []fake.Faults // of each incarnation; none after the last
	cause  process.Cause // of deaths; Crash if empty
	slow   time.Duration // of workers without faults
	none   bool          // no worker comes
	wrap   func(protocol.Engine) protocol.Engine

	mu     sync.Mutex
	worker *process.Worker
	engine *fake.Engine
	count  int
	last   string // id of the request that runs
}

// noter keeps the id of the newest request, to which a death is charged.
type noter struct {
	protocol.Engine
	rig *rig
}

func (n noter) Generate(ctx context.Context, req protocol.GenerateRequest, emit func(protocol.Event) error) error {
	n.rig.mu.Lock()
	n.rig.last = req.ID
	n.rig.mu.Unlock()
	return n.Engine.Generate(ctx, req, emit)
}

func (r *rig) Worker(ctx context.Context) (*process.Worker, error) {
	if r.none {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worker != nil {
		select {
		case <-r.worker.Gone():
		default:
			return r.worker, nil
		}
	}
	r.count++
	opt := fake.Options{Info: info(), Next: fake.Script(r.text)}
	opt.Faults.Slow = r.slow
	if r.count <= len(r.faults) {
		opt.Faults = r.faults[r.count-1]
	}
	n := r.count
	var die func(process.Verdict)
	opt.OnDeath = func() {
		r.mu.Lock()
		v := process.Verdict{Cause: process.Crash, Incarnation: n, Beat: protocol.Beat{Request: r.last, Phase: protocol.PhaseDecode}}
		r.mu.Unlock()
		if r.cause != "" {
			v.Cause = r.cause
		}
		die(v)
	}
	r.engine = fake.New(opt)
	var engine protocol.Engine = noter{r.engine, r}
	if r.wrap != nil {
		engine = r.wrap(engine)
	}
	r.worker, die = process.Attach(engine, opt.Info, n)
	return r.worker, nil
}

func (r *rig) stats(t *testing.T) protocol.Stats {
	t.Helper()
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	s, err := engine.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// info is the fake model with the demo checkpoint's template, which has think blocks and refuses some roles.
var info = sync.OnceValue(func() protocol.ModelInfo {
	source, err := os.ReadFile("../../scripts/demo-model/checkpoint/chat_template.jinja")
	if err != nil {
		panic(err)
	}
	i := fake.DefaultInfo()
	i.Name, i.ChatTemplate, i.Context = "lilypad-demo", string(source), 1024
	i.Sampling = protocol.Sampling{Temperature: 0.3, TopK: 20, TopP: 0.95}
	return i
})

// serve starts the API over a rig.
func serve(t *testing.T, r *rig, change func(*Options)) *httptest.Server {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	o := Options{Workers: r, Log: log, Started: time.Unix(1, 0), Health: func() Health { return Health{Ready: true, Incarnation: 1} }}
	if change != nil {
		change(&o)
	}
	s := httptest.NewServer(New(o))
	t.Cleanup(s.Close)
	return s
}

// post sends a chat request and returns the status and body of the answer.
func post(t *testing.T, s *httptest.Server, body string) (int, string, http.Header) {
	t.Helper()
	resp, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

const noThink = `"chat_template_kwargs":{"enable_thinking":false}`
