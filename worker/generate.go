package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
	"lilypad/worker/sample"
	"lilypad/worker/state"
	"lilypad/worker/tokenizer"
)

// Generate implements protocol.Engine.
func (e *Engine) Generate(ctx context.Context, req protocol.GenerateRequest, emit func(protocol.Event) error) error {
	l, err := e.begin()
	if err != nil {
		return err
	}
	defer e.end()
	if err := l.checkGenerate(&req); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &generation{
		request: request{id: req.ID, ctx: ctx}, engine: e, model: l, req: req,
		out: newOutbox[protocol.Event](e.opt.ReaderBuffer, l.thread.ring), stream: tokenizer.NewStream(l.tokenizer), begun: time.Now(),
	}
	g.stream.Prime(req.Tokens[req.Prompt:])
	return run(ctx, cancel, l.thread, g, g.out, func(events []protocol.Event) error { return emit(merge(events)) })
}

// run submits k and hands what it puts out to emit, until it has ended.
func run[T any](ctx context.Context, cancel context.CancelFunc, t *thread, k task, out *outbox[T], emit func([]T) error) error {
	if err := t.submit(k); err != nil {
		return err
	}
	var items []T
	var refused error // of emit, or ctx's: nothing is emitted after it
	gone := ctx.Done()
	for {
		select {
		case <-gone:
			if refused == nil {
				refused = ctx.Err()
			}
			gone = nil
			t.ring() // it may sleep
			continue
		case <-out.news:
		}
		var finished bool
		var err error
		items, finished, err = out.take(items)
		if len(items) > 0 && refused == nil {
			if refused = emit(items); refused != nil {
				cancel()
			}
		}
		if finished {
			if refused != nil {
				return refused
			}
			return err
		}
	}
}

// merge makes one event of several, in order.
func merge(events []protocol.Event) protocol.Event {
	if len(events) == 1 {
		return events[0]
	}
	var all protocol.Event
	for _, ev := range events {
		if ev.Started != nil {
			all.Started = ev.Started
		}
		if ev.Prefill != nil {
			all.Prefill = ev.Prefill
		}
		if ev.Done != nil {
			all.Done = ev.Done
		}
		all.Tokens = append(all.Tokens, ev.Tokens...)
		for _, s := range ev.Computed {
			all.Computed = state.Append(all.Computed, s)
		}
	}
	return all
}

// generation is one Generate call on the compute thread.
type generation struct {
	request
	engine *Engine
	model  *loaded
	req    protocol.GenerateRequest
	out    *outbox[protocol.Event]
	stream *tokenizer.Stream
	begun  time.Time

	lease   *state.Lease // nil until the first unit
	plan    *plan
	cached  int
	last    int32 // the token sampled last, not yet computed
	sampled int
	top     []sample.Scored // scratch
}

func (g *generation) common() *request { return &g.request }
func (g *generation) full() bool       { return g.out.full() }
func (g *generation) prefilling() bool { return g.sampled == 0 }

// step computes one unit and puts out one event with all that came of it, so that a token never travels without the
// schedule of those before it.
func (g *generation) step() (last bool, err error) {
	ev, err := g.unit()
	if err == nil {
		g.out.put(ev)
	}
	return ev.Done != nil, err
}

func (g *generation) unit() (protocol.Event, error) {
	var ev protocol.Event
	if g.lease == nil {
		if err := g.start(); err != nil {
			return ev, err
		}
	}
	var err error
	switch pos := g.lease.Len(); {
	case pos < g.plan.total:
		err = g.prefill(pos, &ev)
	case !g.req.Logprobs && g.req.TopLogprobs == 0 && g.lease.CanStep():
		err = g.advance(&ev)
		return ev, err
	default:
		err = g.compute(&ev, protocol.Segment{Kind: protocol.Decode, N: 1}, []int32{g.last}, true)
	}
	if err == nil && g.lease.Len() >= g.plan.total {
		err = g.choose(&ev)
	}
	return ev, err
}

// start borrows the state of the longest cached prefix, and tells the caller before the first chunk is computed.
func (g *generation) start() error {
	l, started, err := g.model.store.Acquire(g.req.Tokens, g.req.Schedule)
	if err != nil {
		return err
	}
	g.lease, g.cached = l, started.Cached
	l.StopWhen(func() bool { return g.ctx.Err() != nil })
	g.plan = newPlan(&g.req, started.Cached, g.model.interval, g.model.backend)
	g.engine.counters.cached.Add(int64(started.Cached))
	g.out.put(protocol.Event{Started: &started})
	return nil
}

// prefill computes the next unit of the tokens that the request brought.
func (g *generation) prefill(pos int, ev *protocol.Event) error {
	unit := g.plan.next(pos, g.model.thread.crowd(g))
	end := pos + unit.N
	if err := g.compute(ev, unit, g.req.Tokens[pos:end], end == g.plan.total); err != nil {
		return err
	}
	ev.Prefill = &protocol.Progress{Done: end, Total: g.plan.total}
	return nil
}

// compute adds tokens to the state, with the logits of the last one in model.logits if they are wanted, and takes a
// checkpoint where one is due.
func (g *generation) compute(ev *protocol.Event, unit protocol.Segment, tokens []int32, wantLogits bool) error {
	var logits []float32
	rows := 0
	if wantLogits {
		logits, rows = g.model.logits, 1
	}
	counter := &g.engine.counters.prefilled
	var err error
	if unit.Kind == protocol.Decode {
		counter = &g.engine.counters.decoded
		err = g.lease.Decode(tokens[0], logits)
	} else {
		err = g.lease.Prefill(tokens, rows, logits)
	}
	if errors.Is(err, state.ErrStopped) {
		return g.ctx.Err()
	}
	if err != nil {
		return err
	}
	counter.Add(int64(len(tokens)))
	return g.computed(ev, unit)
}

// computed reports a unit and takes a checkpoint where one is due.
func (g *generation) computed(ev *protocol.Event, unit protocol.Segment) error {
	ev.Computed = []protocol.Segment{unit}
	if take, wanted := g.plan.checkpoint(g.lease.Len()); take {
		return g.lease.Checkpoint(wanted)
	}
	return nil
}

// advance computes the last token and lets the backend choose the next one.
func (g *generation) advance(ev *protocol.Event) error {
	id, err := g.lease.Step(g.last, g.req.Sampling, g.model.logits)
	if err != nil {
		return err
	}
	g.engine.counters.decoded.Add(1)
	if err := g.computed(ev, protocol.Segment{Kind: protocol.Decode, N: 1}); err != nil {
		return err
	}
	if id < 0 {
		return g.choose(ev)
	}
	return g.accept(ev, id)
}

// choose samples the token after the state from model.logits.
func (g *generation) choose(ev *protocol.Event) error {
	m := g.model
	id, err := m.sampler.Choose(m.logits, g.req.Sampling, g.lease.Len())
	if err != nil {
		g.lease.Discard() // a state that leads to such logits must not serve anybody
		return err
	}
	return g.accept(ev, id)
}

// accept adds a chosen token to the answer, or ends it.
func (g *generation) accept(ev *protocol.Event, id int32) (err error) {
	m := g.model
	if slices.Contains(g.req.StopIDs, id) {
		ev.Done = &protocol.Done{Reason: protocol.StopToken, StopID: id, Text: g.stream.Flush()}
		return nil
	}
	token := protocol.Token{ID: id, Text: g.stream.Push(id)}
	if g.req.Logprobs || g.req.TopLogprobs > 0 {
		if token.Logprob, g.top, err = m.sampler.Logprobs(m.logits, id, g.req.TopLogprobs, g.top[:0]); err != nil {
			return err
		}
		token.Top = m.texts(g.top)
	}
	ev.Tokens = []protocol.Token{token}
	g.last = id
	g.sampled++
	switch {
	case g.sampled == g.req.MaxTokens:
		ev.Done = &protocol.Done{Reason: protocol.MaxTokens, Text: g.stream.Flush()}
	case g.lease.Len()+1 >= m.info.Context:
		ev.Done = &protocol.Done{Reason: protocol.ContextEnd, Text: g.stream.Flush()}
	}
	return nil
}

// texts adds the candidates' own texts.
func (l *loaded) texts(top []sample.Scored) []protocol.TokenLogprob {
	var out []protocol.TokenLogprob
	for _, c := range top {
		out = append(out, protocol.TokenLogprob{ID: c.ID, Text: l.tokenizer.Decode([]int32{c.ID}), Logprob: c.Logprob})
	}
	return out
}

// free keeps the state for later requests, whatever ended this one.
func (g *generation) free() {
	if g.lease != nil {
		g.lease.Release()
		g.engine.publishLoads(g.model)
	}
}

func (g *generation) tell(err error) {
	g.out.finish(coded(err))
	g.engine.log.WithFields(logrus.Fields{
		"request": g.id, "tokens": len(g.req.Tokens), "cached": g.cached, "sampled": g.sampled,
		"elapsed_ms": time.Since(g.begun).Milliseconds(), "err": err,
	}).Debug("generation over")
}

// coded gives errors that are neither the protocol's nor a context's the code of an internal one.
func coded(err error) error {
	if err == nil || protocol.CodeOf(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return protocol.Errorf(protocol.CodeInternal, "%v", err)
}
