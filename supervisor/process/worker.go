// Package process launches the worker, notices its death and says how it died, and starts the next one. It must not know
// HTTP or what a generation is.
package process

import (
	"context"
	"sync"
	"time"

	"lilypad/protocol"
)

// Worker is one incarnation of the engine that finished its load.
type Worker struct {
	Engine      protocol.Engine
	Info        protocol.ModelInfo
	Incarnation int // counts starts, from 1

	once    sync.Once
	gone    chan struct{}
	settled chan struct{}
	verdict Verdict
}

// Cause is the kind of a worker's death.
type Cause string

// The causes of a death.
const (
	Jetsam   Cause = "jetsam"       // SIGKILL under memory pressure, or an out-of-memory kill
	GPUFault Cause = "gpu_fault"    // the GPU driver or a Metal assertion ended it
	Crash    Cause = "native_crash" // SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGTRAP
	Panic    Cause = "panic"        // a Go panic or fatal error
	Exited   Cause = "exited"       // another exit code
	Killed   Cause = "killed"       // SIGKILL or SIGTERM from outside, no memory pressure seen
	Ours     Cause = "ours"         // we asked for it
	Stalled  Cause = "stalled"      // we killed it since it made no progress
)

// Verdict tells how a worker died, with no prompt text.
type Verdict struct {
	Cause       Cause
	Signal      string        // "killed", "segmentation fault" ...; empty without one
	ExitCode    int           // -1 without one
	Incarnation int           //
	Sign        string        // what was noticed first: "connection", "exit", "heartbeat"
	Beat        protocol.Beat // last heartbeat: phase, layer, step, bytes and the running request
	Evidence    []string      // short lines for a person: pressure seen, last native log line
	At          time.Time
}

// Gone is closed as soon as the first sign of death is seen.
func (w *Worker) Gone() <-chan struct{} { return w.gone }

// Verdict waits until the death is classified or ctx ends; the process package itself waits 250 ms at most for evidence.
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
	w = &Worker{Engine: engine, Info: info, Incarnation: incarnation, gone: make(chan struct{}), settled: make(chan struct{})}
	return w, w.die
}

// die records the verdict once and wakes everybody who waits.
func (w *Worker) die(v Verdict) {
	w.once.Do(func() {
		w.verdict = v
		close(w.gone)
		close(w.settled)
	})
}
