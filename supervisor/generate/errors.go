package generate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/process"
)

// Code classifies an Error; the wire contract uses the same words.
type Code string

// The codes of Error.
const (
	EngineCrashed     Code = "engine_crashed"
	EngineStalled     Code = "engine_stalled"
	EngineOOM         Code = "engine_oom"
	GPUError          Code = "gpu_error"
	EngineRestarting  Code = "engine_restarting"  // no worker came in time
	EngineUnavailable Code = "engine_unavailable" // no worker will come
	Memory            Code = "insufficient_memory"
	ContextLength     Code = "context_length_exceeded"
	Cancelled         Code = "cancelled_by_operator"
	Deadline          Code = "deadline_exceeded"
	Internal          Code = "internal_error"
)

// Error is how a generation failed, in words for the client and without any text of the conversation.
type Error struct {
	Code        Code
	Message     string        // one sentence or more, for a person
	Cause       process.Cause // of the death, if there was one
	Phase       string        // what the worker was doing
	Incarnation int           // of the worker that died
	Tokens      int           // sampled before
	Poison      bool          // this request kills workers: it must not be sent again
	Retryable   bool          // the same request may well succeed
	RetryAfter  time.Duration // when Retryable
	Have, Want  int64         // the two numbers of Memory and ContextLength
}

func (e *Error) Error() string { return e.Message }

// ErrCancelled and ErrDeadline are causes (see context.WithCancelCause) that Run reports as *Error of their code.
var (
	ErrCancelled = errors.New("cancelled by the operator")
	ErrDeadline  = errors.New("the request's time is over")
)

var (
	errNoWorker   = errors.New("no worker came in time")
	errNoProgress = errors.New("the replay made no progress")
	errOtherModel = errors.New("the model in the directory has changed")
)

// verdictTime is how long a verdict is waited for; the process package needs a quarter second at most.
const verdictTime = 2 * time.Second

// bury takes note of a worker's death. It returns the error that ends the generation, or nil if it may be replayed.
func (g *generation) bury(ctx context.Context, w *process.Worker) error {
	g.news.enter(Recovering)
	waiting, cancel := context.WithTimeout(ctx, verdictTime)
	v, err := w.Verdict(waiting)
	cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		v = process.Verdict{Cause: "connection lost", Incarnation: w.Incarnation, ExitCode: -1}
	}
	replay, poison := g.limits.death(v)
	if !replay {
		return died(v, poison, g.ledger.sampled())
	}
	g.result.Recoveries = append(g.result.Recoveries, Recovery{Cause: v.Cause, Tokens: g.ledger.sampled(), Exact: true})
	return nil
}

// died makes the error for a death that ends a generation.
func died(v process.Verdict, poison bool, sampled int) *Error {
	e := &Error{Code: EngineCrashed, Cause: v.Cause, Phase: phaseOf(v.Beat.Phase), Incarnation: v.Incarnation, Tokens: sampled,
		Poison: poison, Retryable: !poison, RetryAfter: time.Second}
	how := "crashed"
	switch v.Cause {
	case process.Stalled:
		e.Code, how = EngineStalled, "made no progress and was ended"
	case process.Jetsam:
		e.Code, how, e.RetryAfter = EngineOOM, "was killed by the operating system (out of memory)", 8*time.Second
	case process.GPUFault:
		e.Code, how = GPUError, "was ended by a GPU fault"
	case process.Killed:
		how = "was killed from outside"
	case process.Ours:
		how = "was stopped"
	}
	e.Message = fmt.Sprintf("The local engine %s after %d output tokens, and replaying the request did not help.", how, sampled)
	if poison {
		e.RetryAfter = 0
		e.Message = fmt.Sprintf("The local engine %s twice in a row at this request, after %d output tokens. Sending it again would do the same.", how, sampled)
	}
	return e
}

// describe turns what ended a generation into an *Error, except a cause that the caller set on its own context.
func (g *generation) describe(err error) error {
	sampled := g.ledger.sampled()
	var known *Error
	var engine *protocol.Error
	e := &Error{Message: err.Error(), Tokens: sampled}
	if n := len(g.result.Recoveries); n > 0 {
		e.Cause, e.Incarnation = g.result.Recoveries[n-1].Cause, g.result.Incarnation
	}
	switch {
	case errors.As(err, &known):
		known.Tokens = sampled
		return known
	case errors.Is(err, ErrCancelled):
		e.Code, e.Retryable, e.RetryAfter = Cancelled, true, time.Second
		e.Message = "The server is shutting down and ended this answer."
	case errors.Is(err, ErrDeadline):
		e.Code, e.Message = Deadline, "The answer was not finished in time; ask for it as a stream."
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errNoWorker):
		e.Code, e.Retryable, e.RetryAfter = EngineRestarting, true, 2*time.Second
		e.Message = fmt.Sprintf("No engine was ready within %v.", recoveryTime)
	case errors.Is(err, errNoProgress):
		e.Code, e.Message = EngineStalled, fmt.Sprintf("The engine made no progress for %v while it replayed the request.", recoveryTime)
	case errors.Is(err, errOtherModel):
		e.Code, e.Message = EngineCrashed, "The model changed while the engine was restarted, so this answer can't go on."
		e.Retryable, e.RetryAfter = true, time.Second
	case errors.As(err, &engine):
		e.engine(engine)
	default:
		e.Code, e.Message = Internal, "The engine failed: "+err.Error()
	}
	return e
}

// unavailable says that a Source has no worker and, but for a pause after many deaths, will not have one.
func unavailable(err error) *Error {
	e := &Error{Code: EngineUnavailable, Message: "No engine is available: " + err.Error()}
	if errors.Is(err, process.ErrUnstable) || errors.Is(err, process.ErrStopped) {
		e.Retryable, e.RetryAfter = true, 8*time.Second
	}
	return e
}

// engine fills e from an error of a living engine.
func (e *Error) engine(from *protocol.Error) {
	e.Message, e.Have, e.Want = from.Message, from.Have, from.Want
	switch from.Code {
	case protocol.CodeContextLength:
		e.Code = ContextLength
	case protocol.CodeMemory:
		e.Code, e.Retryable, e.RetryAfter = Memory, true, 4*time.Second
	case protocol.CodeNotLoaded, protocol.CodeDraining:
		e.Code, e.Retryable, e.RetryAfter = EngineRestarting, true, 2*time.Second
	case protocol.CodeDevice:
		e.Code, e.Retryable, e.RetryAfter = GPUError, true, 2*time.Second
	default:
		e.Code, e.Message = Internal, "The engine failed: "+from.Message
	}
}
