// Package process launches the worker, notices its death and says how it died, and starts the next one. It must not know
// HTTP or what a generation is.
package process

import (
	"context"
	"sync"

	"lilypad/protocol"
)

// Worker is one incarnation of the engine that finished its load.
type Worker struct {
	Engine      protocol.Engine
	Info        protocol.ModelInfo
	Incarnation int // counts starts, from 1

	noticed sync.Once
	judged  sync.Once
	gone    chan struct{}
	settled chan struct{}
	verdict Verdict
}

func newWorker(incarnation int) *Worker {
	return &Worker{Incarnation: incarnation, gone: make(chan struct{}), settled: make(chan struct{})}
}

// Gone is closed as soon as the first sign of death is seen.
func (w *Worker) Gone() <-chan struct{} { return w.gone }

// Verdict waits until the death is classified or ctx ends. Evidence is given 250 ms, an exit status that is late 1.5 s.
func (w *Worker) Verdict(ctx context.Context) (Verdict, error) {
	select {
	case <-w.settled:
		return w.verdict, nil
	case <-ctx.Done():
		return Verdict{}, ctx.Err()
	}
}

// Attach wraps an engine that is not a process of ours (in tests and benchmarks). die ends the worker with a verdict.
func Attach(engine protocol.Engine, info protocol.ModelInfo, incarnation int) (w *Worker, die func(Verdict)) {
	w = newWorker(incarnation)
	w.Engine, w.Info = engine, info
	return w, w.settle
}

// notice wakes everybody who waits for the death; only the first sign counts. It reports whether this was it.
func (w *Worker) notice() (first bool) {
	w.noticed.Do(func() {
		close(w.gone)
		first = true
	})
	return first
}

// settle records the verdict, once.
func (w *Worker) settle(v Verdict) {
	w.notice()
	w.judged.Do(func() {
		w.verdict = v
		close(w.settled)
	})
}
