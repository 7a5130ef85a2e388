package generate

import (
	"errors"
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/process"
)

// errEnded ends the worker's call when a stop string was found.
var errEnded = errors.New("generation ended")

// round takes the events of one worker.
type round struct {
	g        *generation
	worker   *process.Worker
	start    int         // tokens in the ledger when the round began
	computed schedule    // by this worker, the cached prefix included
	watchdog *time.Timer // in a recovery: ends the call when nothing moves
	done     bool
}

// take is the emit function of Engine.Generate.
func (r *round) take(e protocol.Event) error {
	g := r.g
	if g.limits.recovering() {
		g.limits.progress()
		r.watchdog.Reset(g.limits.left())
	}
	if e.Started != nil {
		r.begin(*e.Started)
	}
	r.compute(e.Computed)
	if e.Prefill != nil && !g.limits.recovering() {
		g.news.moved(Prefill)
	}
	for _, t := range e.Tokens {
		if r.token(t) {
			return errEnded
		}
	}
	if e.Done != nil {
		r.done = true
		reason := Length
		if e.Done.Reason == protocol.StopToken {
			reason = Stop
		}
		g.finish(reason, e.Done.Text)
	}
	return nil
}

func (r *round) begin(s protocol.Started) {
	r.computed.add(s.Schedule...)
	if r.g.begun {
		return
	}
	r.g.begun = true
	r.g.result.Begin = Begin{Incarnation: r.worker.Incarnation, Cached: s.Cached, Miss: s.Miss}
	r.g.news.moved(Prefill)
	begin := r.g.result.Begin
	r.g.news.put(&begin, "", "")
}

// compute notes how tokens were computed. The ledger keeps the old schedule until this worker has computed as much, so that
// its death in the middle of a replay loses nothing.
func (r *round) compute(segments []protocol.Segment) {
	g := r.g
	for _, s := range segments {
		before := r.computed.tokens
		r.computed.add(s)
		if len(g.result.Recoveries) > 0 {
			g.result.Replayed += max(min(r.computed.tokens, r.start)-before, 0)
		}
	}
	if len(segments) == 0 {
		return
	}
	if r.computed.tokens >= g.ledger.computed.tokens {
		r.adopt()
	}
	if !g.limits.recovering() {
		phase := Prefill
		if g.ledger.sampled() > 0 {
			phase = Decode
		}
		g.news.moved(phase)
	}
}

// adopt makes this worker's way of computing the ledger's.
func (r *round) adopt() {
	r.g.ledger.computed, r.g.ledger.numerics = r.computed, r.worker.Info.Numerics
}

// token takes one new token and tells whether it ended the generation.
func (r *round) token(t protocol.Token) (ended bool) {
	g := r.g
	if r.watchdog != nil {
		r.watchdog.Stop()
		r.watchdog = nil
	}
	g.limits.newToken()
	g.ledger.tokens = append(g.ledger.tokens, t.ID)
	r.adopt()
	reasoning, content, hit := g.text.push(t)
	g.news.moved(Decode)
	g.news.put(nil, reasoning, content)
	if hit {
		g.result.Finish = Stop
	}
	return hit
}
