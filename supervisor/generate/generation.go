package generate

import (
	"context"
	"errors"
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/process"
)

// generation is the state of one Run. Only the goroutine of run touches it, except news.
type generation struct {
	workers Source
	req     Request
	ledger  ledger
	text    text
	news    *news
	limits  limits
	result  Result

	begun      bool
	checkpoint string // checkpoint id of the first worker
}

func newGeneration(workers Source, req Request) *generation {
	return &generation{
		workers: workers,
		req:     req,
		ledger:  ledger{prompt: len(req.Tokens), tokens: append([]int32(nil), req.Tokens...)},
		text:    text{split: req.Split, stops: stops{list: req.Stop}},
		news:    newNews(),
		limits:  limits{id: req.ID},
	}
}

// run goes from worker to worker until the generation has ended. It fills result in any case.
func (g *generation) run(ctx context.Context) error {
	for {
		w, err := g.nextWorker(ctx)
		if err == nil {
			err = g.attempt(ctx, w)
		}
		g.result.Tokens, g.result.Reasoning = g.ledger.sampled(), g.req.Split.ReasoningTokens()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return g.describe(context.Cause(ctx))
		case !errors.Is(err, protocol.ErrWorkerGone):
			return g.describe(err)
		}
		if err := g.bury(ctx, w); err != nil {
			return g.describe(err)
		}
	}
}

// nextWorker waits for a worker within the limits and checks that it can go on with the ledger.
func (g *generation) nextWorker(ctx context.Context) (*process.Worker, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, g.limits.left(), errNoWorker)
	defer cancel()
	w, err := g.workers.Worker(waiting)
	switch {
	case err == nil:
	case waiting.Err() != nil:
		return nil, context.Cause(waiting)
	default:
		return nil, unavailable(err)
	}
	if g.checkpoint == "" {
		g.checkpoint = w.Info.CheckpointID
	} else if g.checkpoint != w.Info.CheckpointID {
		return nil, errOtherModel
	}
	return w, nil
}

// attempt runs the generation on one worker. It returns nil at the generation's end and an error that matches ErrWorkerGone
// when the worker died.
func (g *generation) attempt(ctx context.Context, w *process.Worker) error {
	if n := len(g.result.Recoveries); n > 0 && g.result.Recoveries[n-1].Incarnation == 0 {
		g.result.Recoveries[n-1].Incarnation = w.Incarnation
	}
	g.result.Incarnation = w.Incarnation
	left := g.left(w.Info.Context)
	if left <= 0 && g.ledger.sampled() > 0 {
		return g.completeLost(ctx, w)
	}

	calling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-w.Gone():
			cancel(protocol.ErrWorkerGone)
		case <-calling.Done():
		}
	}()
	defer func() { cancel(nil); <-watched }()
	r := &round{g: g, worker: w, start: len(g.ledger.tokens)}
	if g.limits.recovering() {
		watchdog := time.AfterFunc(g.limits.left(), func() { cancel(errNoProgress) })
		defer watchdog.Stop()
		r.watchdog = watchdog
	}

	err := w.Engine.Generate(calling, g.request(w, left), r.take)
	switch {
	case r.done || errors.Is(err, errEnded):
		return nil
	case err == nil:
		return protocol.Errorf(protocol.CodeInternal, "it ended a generation without saying so")
	case calling.Err() != nil:
		return context.Cause(calling)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.CodeInternal, "it cancelled a generation by itself")
	}
	return err
}

// request asks for what is missing. A replay on the same arithmetic follows the schedule of the ledger.
func (g *generation) request(w *process.Worker, left int) protocol.GenerateRequest {
	req := protocol.GenerateRequest{
		ID:          g.req.ID,
		Tokens:      append([]int32(nil), g.ledger.tokens...),
		Prompt:      g.ledger.prompt,
		MaxTokens:   max(left, 1),
		StopIDs:     w.Info.StopIDs,
		Sampling:    g.req.Sampling,
		Checkpoints: g.req.Checkpoints,
	}
	n := len(g.result.Recoveries)
	if n == 0 {
		return req
	}
	segments, complete := g.ledger.replay()
	same := g.ledger.numerics == w.Info.Numerics
	if same {
		req.Schedule, req.Numerics = segments, w.Info.Numerics
	}
	if g.ledger.sampled() > 0 {
		g.result.Recoveries[n-1].Exact = same && complete
	}
	return req
}

// left is how many tokens may still be sampled in a context of size tokens.
func (g *generation) left(size int) int {
	left := size - len(g.ledger.tokens)
	if g.req.MaxTokens > 0 {
		left = min(left, g.req.MaxTokens-g.ledger.sampled())
	}
	return left
}

// completeLost ends a generation whose last token came just before the worker died: only bytes that the detokeniser held
// back can be missing.
func (g *generation) completeLost(ctx context.Context, w *process.Worker) error {
	all, err := w.Engine.Detokenize(ctx, g.ledger.tokens[g.ledger.prompt:])
	if err != nil {
		return err
	}
	g.finish(Length, all[min(g.text.bytes, len(all)):])
	return nil
}

// finish releases all text that was held back and sets the reason.
func (g *generation) finish(reason Finish, tail string) {
	reasoning, content, hit := g.text.end(tail)
	if hit {
		reason = Stop
	}
	g.news.put(nil, reasoning, content)
	g.result.Finish = reason
}
