package worker

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
	"lilypad/worker/sample"
	"lilypad/worker/state"
)

// scoreBytes bounds the memory for logits of one scored chunk.
const scoreBytes = 16 << 20

// Score implements protocol.Engine. It computes every token anew, in a state that nobody else uses and that is freed at
// the end, so that what it says does not depend on what was cached.
func (e *Engine) Score(ctx context.Context, req protocol.ScoreRequest, emit func(protocol.ScoreStep) error) error {
	l, err := e.begin()
	if err != nil {
		return err
	}
	defer e.end()
	if err := l.checkPrompt(req.ID, req.Tokens, l.info.Context); err != nil {
		return err
	}
	if req.From < 1 || req.From > len(req.Tokens) || req.TopK < 1 || req.TopK > mostScored {
		return invalid("scoring from %d with %d candidates, want from 1 to %d and 1 to %d candidates", req.From, req.TopK, len(req.Tokens), mostScored)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &scoring{
		request: request{id: req.ID, ctx: ctx}, engine: e, model: l, req: req,
		out: newOutbox[protocol.ScoreStep](e.opt.ReaderBuffer, l.thread.ring), begun: time.Now(),
	}
	return run(ctx, cancel, l.thread, s, s.out, func(steps []protocol.ScoreStep) error {
		for _, st := range steps {
			if err := emit(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// scoring is one Score call on the compute thread.
type scoring struct {
	request
	engine *Engine
	model  *loaded
	req    protocol.ScoreRequest
	out    *outbox[protocol.ScoreStep]
	begun  time.Time
	lease  *state.Lease // nil until the first unit
	top    []sample.Scored
}

func (s *scoring) common() *request { return &s.request }
func (s *scoring) full() bool       { return s.out.full() }
func (s *scoring) prefilling() bool { return true }

// step computes a chunk: as long as in a generation before the first wanted row, then as long as scoreBytes allow.
func (s *scoring) step() (last bool, err error) {
	m := s.model
	if s.lease == nil {
		if s.lease, err = m.store.Fresh(); err != nil {
			return false, err
		}
	}
	pos, first := s.lease.Len(), s.req.From-1 // row first predicts the token at From
	n, rows := min(m.backend.Chunk(), first-pos), 0
	if pos >= first {
		n = min(m.scoreRows(), len(s.req.Tokens)-pos)
		rows = n
		if m.rows == nil {
			m.rows = make([]float32, m.scoreRows()*m.info.Vocab)
		}
	}
	if err := s.lease.Prefill(s.req.Tokens[pos:pos+n], rows, m.rows); err != nil {
		return false, err
	}
	s.engine.counters.prefilled.Add(int64(n))
	for i := range rows {
		if err := s.report(pos+i+1, m.rows[i*m.info.Vocab:(i+1)*m.info.Vocab]); err != nil {
			return false, err
		}
	}
	return s.lease.Len() == len(s.req.Tokens), nil
}

// report puts out what logits predict for a position.
func (s *scoring) report(position int, logits []float32) error {
	id := s.req.Tokens[0] // any; at the end there is no token to score
	if position < len(s.req.Tokens) {
		id = s.req.Tokens[position]
	}
	logprob, top, err := s.model.sampler.Logprobs(logits, id, s.req.TopK, s.top[:0])
	s.top = top
	if err != nil {
		return err
	}
	if position == len(s.req.Tokens) {
		logprob = 0
	}
	s.out.put(protocol.ScoreStep{Position: position, Logprob: logprob, Top: s.model.texts(top)})
	return nil
}

// scoreRows is the number of rows of logits that fit in scoreBytes, 1 to a chunk.
func (l *loaded) scoreRows() int {
	return min(max(scoreBytes/(4*l.info.Vocab), 1), l.backend.Chunk())
}

func (s *scoring) free() {
	if s.lease != nil {
		s.lease.Discard()
	}
}

func (s *scoring) tell(err error) {
	s.out.finish(coded(err))
	s.engine.log.WithFields(logrus.Fields{
		"request": s.id, "tokens": len(s.req.Tokens), "elapsed_ms": time.Since(s.begun).Milliseconds(), "err": err,
	}).Debug("scoring over")
}
