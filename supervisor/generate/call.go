package generate

import (
	"context"
	"errors"
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/process"
)

// callTime bounds one short call, such as Tokenize of a prompt that fills the context.
const callTime = 10 * time.Second

// Call runs a short call of the engine, and once more on the next worker if the first dies or hangs meanwhile: a second
// death is taken for this call's fault. It waits at most wait for a worker. Errors are those of f, or *Error.
func Call(ctx context.Context, workers Source, wait time.Duration, f func(context.Context, *process.Worker) error) error {
	for try := 1; ; try++ {
		w, err := await(ctx, workers, wait)
		if err != nil {
			return err
		}
		err = guarded(ctx, w, f)
		if !errors.Is(err, protocol.ErrWorkerGone) {
			return err
		}
		if try == maxCharged {
			return &Error{Code: EngineCrashed, Message: "The local engine died twice while it read the request.", Incarnation: w.Incarnation, Poison: true}
		}
		select { // until the process package knows of the death too
		case <-w.Gone():
		case <-time.After(verdictTime):
		case <-ctx.Done():
		}
	}
}

// await is Source.Worker with a limit.
func await(ctx context.Context, workers Source, wait time.Duration) (*process.Worker, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	w, err := workers.Worker(waiting)
	switch {
	case err == nil:
		return w, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case waiting.Err() != nil:
		return nil, &Error{Code: EngineRestarting, Message: "The engine is not ready yet.", Retryable: true, RetryAfter: 2 * time.Second}
	}
	return nil, unavailable(err)
}

// guarded ends f's context when the worker dies or the call takes too long.
func guarded(ctx context.Context, w *process.Worker, f func(context.Context, *process.Worker) error) error {
	calling, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-w.Gone():
			cancel()
		case <-calling.Done():
		}
	}()
	err := f(calling, w)
	cancel()
	<-watched
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) { // the process package is about to find the worker stalled
		return protocol.ErrWorkerGone
	}
	select {
	case <-w.Gone():
		return protocol.ErrWorkerGone
	default:
		return err
	}
}
