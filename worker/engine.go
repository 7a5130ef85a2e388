// Package worker is the engine: it owns the weights, the states and the one compute thread, and interleaves requests on it.
// It must not know HTTP, messages or templates, and must not import supervisor.
package worker

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
)

// Options of an Engine; the zero value of each field but Log is sensible.
type Options struct {
	Log            logrus.FieldLogger
	Heartbeat      *protocol.Heartbeat // nil in an engine that nobody watches
	Threads        int                 // threads that compute; 0 means all cores
	Kernels        string              // kernel set of the CPU backend; empty means the preferred one
	ReaderBuffer   int                 // events held for a caller that does not take them, before its request is paused; 0 means 4,096
	ReaderDeadline time.Duration       // after so long a pause the request ends with protocol.CodeSlowReader; 0 means 30 s
}

// Engine implements protocol.Engine in this process. Any number of goroutines may call it.
type Engine struct {
	log  logrus.FieldLogger
	opt  Options
	open opener

	mu       sync.Mutex
	phase    phase
	loading  chan struct{} // closed when the Load that runs is over
	loaded   *loaded       // while phase is phaseLoaded
	draining bool
	running  int           // calls of Generate and Score
	quiet    chan struct{} // while draining: closed when running reaches 0

	counters counters
}

// phase is the life of an Engine.
type phase int

const (
	phaseNew phase = iota
	phaseLoading
	phaseLoaded
	phaseUnloaded
)

var _ protocol.Engine = (*Engine)(nil)

// New makes an engine without a checkpoint. Whoever makes it calls Unload.
func New(opt Options) *Engine {
	if opt.ReaderBuffer == 0 {
		opt.ReaderBuffer = 4096
	}
	if opt.ReaderDeadline == 0 {
		opt.ReaderDeadline = 30 * time.Second
	}
	e := &Engine{log: opt.Log.WithField("component", "worker"), opt: opt}
	e.open = e.openModel
	return e
}

// Hello implements protocol.Engine.
func (e *Engine) Hello(context.Context) (protocol.Hello, error) {
	h := protocol.Hello{Version: protocol.Version, PID: os.Getpid(), Backend: cpuBackend}
	if l, err := e.model(); err == nil {
		h.Loaded, h.Backend, h.Numerics = true, l.backendName, l.info.Numerics
	}
	return h, nil
}

// model returns what is loaded, or an error of protocol.CodeNotLoaded.
func (e *Engine) model() (*loaded, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.phase {
	case phaseLoaded:
		return e.loaded, nil
	case phaseUnloaded:
		return nil, protocol.Errorf(protocol.CodeNotLoaded, "the model is unloaded")
	}
	return nil, protocol.Errorf(protocol.CodeNotLoaded, "the model is not loaded yet")
}

// begin admits one call of Generate or Score; the caller calls end.
func (e *Engine) begin() (*loaded, error) {
	l, err := e.model()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining || e.phase != phaseLoaded {
		return nil, errDraining()
	}
	e.running++
	return l, nil
}

func (e *Engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running--; e.running == 0 && e.quiet != nil {
		close(e.quiet)
		e.quiet = nil
	}
}

func errDraining() error {
	return protocol.Errorf(protocol.CodeDraining, "the worker is stopping and takes no new requests")
}

// Drain implements protocol.Engine.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	if e.running > 0 && e.quiet == nil {
		e.quiet = make(chan struct{})
	}
	quiet := e.quiet
	e.mu.Unlock()
	if quiet == nil {
		return nil
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unload implements protocol.Engine. Running requests end with an error of protocol.CodeDraining after the unit that they
// compute; when ctx ends before that, a further call goes on waiting.
func (e *Engine) Unload(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	loading := e.loading
	if loading == nil {
		e.phase = phaseUnloaded
	}
	e.mu.Unlock()
	if loading != nil { // it can't be interrupted, but it ends
		select {
		case <-loading:
			return e.Unload(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if e.loaded == nil {
		return nil
	}
	if err := e.loaded.thread.stop(ctx); err != nil {
		return err
	}
	err := e.loaded.release()
	e.counters.forget()
	return err
}

// Tokenize implements protocol.Engine. It does not wait for the compute thread.
func (e *Engine) Tokenize(_ context.Context, spans []protocol.Span) ([]int32, error) {
	l, err := e.model()
	if err != nil {
		return nil, err
	}
	return l.tokenizer.Encode(spans), nil
}

// Detokenize implements protocol.Engine. It does not wait for the compute thread.
func (e *Engine) Detokenize(_ context.Context, ids []int32) (string, error) {
	l, err := e.model()
	if err != nil {
		return "", err
	}
	if err := l.checkTokens(ids); err != nil {
		return "", err
	}
	return l.tokenizer.Decode(ids), nil
}
