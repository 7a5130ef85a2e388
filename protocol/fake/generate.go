package fake

import (
	"context"
	"slices"
	"strings"

	"lilypad/protocol"
)

// Generate prefills what is missing and then emits one token an event.
func (e *Engine) Generate(ctx context.Context, req protocol.GenerateRequest, emit func(protocol.Event) error) error {
	if err := e.begin(req); err != nil {
		return err
	}
	defer e.end()
	prompt := Text(req.Tokens[:req.Prompt])
	cached, schedule, points, miss := e.find(req.Tokens)
	seq := &sequence{tokens: slices.Clone(req.Tokens[:cached]), schedule: slices.Clone(schedule), points: points}
	defer e.keep(seq)
	if err := emit(protocol.Event{Started: &protocol.Started{Cached: cached, Miss: miss, Schedule: schedule}}); err != nil {
		return err
	}
	e.beat(protocol.PhasePrefill, req.ID)
	if err := e.prefill(ctx, req, prompt, seq, emit); err != nil {
		return err
	}
	e.beat(protocol.PhaseDecode, req.ID)
	var text decoder
	for _, id := range req.Tokens[req.Prompt:] {
		text.next(id)
	}
	tokens := slices.Clone(req.Tokens)
	var computed []protocol.Segment
	for n := 0; ; n++ {
		if err := e.at(ctx, PlaceDecode, prompt); err != nil {
			return err
		}
		var done *protocol.Done
		id := e.opt.Next(tokens, req.Prompt, req.Sampling)
		switch {
		case n == req.MaxTokens:
			done = &protocol.Done{Reason: protocol.MaxTokens}
		case len(tokens) >= e.opt.Info.Context:
			done = &protocol.Done{Reason: protocol.ContextEnd}
		case slices.Contains(req.StopIDs, id):
			done = &protocol.Done{Reason: protocol.StopToken, StopID: id}
		}
		if done != nil {
			done.Text = text.rest()
			if err := emit(protocol.Event{Computed: computed, Done: done}); err != nil {
				return err
			}
			return e.at(ctx, PlaceDone, prompt)
		}
		tokens = append(tokens, id)
		t := protocol.Token{ID: id, Text: text.next(id)}
		if req.Logprobs {
			t.Logprob, t.Top = -0.125, candidates(id, req.TopLogprobs, e.opt.Info.Vocab)
		}
		e.mu.Lock()
		e.emitted++
		e.mu.Unlock()
		event := protocol.Event{Tokens: []protocol.Token{t}, Computed: computed}
		if n == 0 && e.opt.Faults.BigMessage > 0 {
			event.Started = &protocol.Started{Miss: strings.Repeat("x", e.opt.Faults.BigMessage)}
		}
		if err := emit(event); err != nil {
			return err
		}
		computed = nil
		if n+1 < req.MaxTokens && len(tokens) < e.opt.Info.Context {
			computed = []protocol.Segment{{Kind: protocol.Decode, N: 1}}
			e.compute(seq, computed[0], tokens)
		}
	}
}

// begin checks a request and counts it.
func (e *Engine) begin(req protocol.GenerateRequest) error {
	if err := e.alive(true); err != nil {
		return err
	}
	info := &e.opt.Info
	sum := 0
	for _, s := range req.Schedule {
		sum += s.N
	}
	bad := func(id int32) bool { return id < 0 || int(id) >= info.Vocab }
	switch {
	case len(req.Tokens) == 0 || req.MaxTokens < 1 || req.Prompt < 0 || req.Prompt > len(req.Tokens) || sum > len(req.Tokens):
		return protocol.Errorf(protocol.CodeInvalid, "%d tokens, prompt %d, schedule of %d, %d new tokens wanted",
			len(req.Tokens), req.Prompt, sum, req.MaxTokens)
	case slices.ContainsFunc(req.Tokens, bad):
		return protocol.Errorf(protocol.CodeInvalid, "token id outside the vocabulary of %d", info.Vocab)
	case len(req.Tokens) >= info.Context:
		return &protocol.Error{Code: protocol.CodeContextLength, Message: "the prompt is too long", Have: int64(len(req.Tokens)), Want: int64(info.Context)}
	case req.Numerics != "" && req.Numerics != info.Numerics:
		return protocol.Errorf(protocol.CodeNumerics, "schedule of %s, this engine is %s", req.Numerics, info.Numerics)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return protocol.Errorf(protocol.CodeDraining, "the engine is draining")
	}
	e.stats.Active++
	return nil
}

func (e *Engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stats.Active--; e.stats.Active == 0 {
		e.opt.Heartbeat.Begin(protocol.PhaseIdle, "")
	}
	e.idle.Broadcast()
}

// prefill computes the tokens of req that seq lacks: by its schedule, then in chunks that end at wanted checkpoints.
func (e *Engine) prefill(ctx context.Context, req protocol.GenerateRequest, prompt string, seq *sequence, emit func(protocol.Event) error) error {
	e.mu.Lock()
	e.stats.Cached += int64(len(seq.tokens))
	e.mu.Unlock()
	plan := skip(req.Schedule, len(seq.tokens))
	for pos := len(seq.tokens); pos < len(req.Tokens); pos = len(seq.tokens) {
		if err := e.at(ctx, PlacePrefill, prompt); err != nil {
			return err
		}
		s := protocol.Segment{Kind: protocol.Prefill, N: min(e.opt.Chunk, len(req.Tokens)-pos)}
		if len(plan) > 0 {
			s, plan = plan[0], plan[1:]
		} else if i, _ := slices.BinarySearch(req.Checkpoints, pos+1); i < len(req.Checkpoints) {
			s.N = min(s.N, req.Checkpoints[i]-pos)
		}
		e.compute(seq, s, req.Tokens)
		if slices.Contains(req.Checkpoints, len(seq.tokens)) {
			seq.points = append(seq.points, len(seq.tokens))
		}
		event := protocol.Event{Prefill: &protocol.Progress{Done: len(seq.tokens), Total: len(req.Tokens)}, Computed: []protocol.Segment{s}}
		if err := emit(event); err != nil {
			return err
		}
	}
	return nil
}

// compute pretends to compute the next s.N of tokens.
func (e *Engine) compute(seq *sequence, s protocol.Segment, tokens []int32) {
	n := len(seq.tokens)
	seq.tokens = append(seq.tokens, tokens[n:n+s.N]...)
	seq.schedule = extend(seq.schedule, s)
	e.mu.Lock()
	if s.Kind == protocol.Prefill {
		e.stats.Prefilled += int64(s.N)
	} else {
		e.stats.Decoded += int64(s.N)
	}
	e.opt.Heartbeat.Layer(n % 8)
	e.mu.Unlock()
}

// candidates are n ids with falling log-probabilities, the chosen one first.
func candidates(chosen int32, n, vocab int) []protocol.TokenLogprob {
	var top []protocol.TokenLogprob
	for i := range n {
		id := (chosen + int32(i)) % int32(vocab)
		top = append(top, protocol.TokenLogprob{ID: id, Text: one(id), Logprob: -0.125 - 2*float32(i)})
	}
	return top
}

// Score predicts with the same function that Generate samples from.
func (e *Engine) Score(ctx context.Context, req protocol.ScoreRequest, emit func(protocol.ScoreStep) error) error {
	if err := e.alive(true); err != nil {
		return err
	}
	if req.From < 1 || req.From > len(req.Tokens) || req.TopK < 1 {
		return protocol.Errorf(protocol.CodeInvalid, "score from %d of %d tokens, top %d", req.From, len(req.Tokens), req.TopK)
	}
	for p := req.From; p <= len(req.Tokens); p++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		best := e.opt.Next(req.Tokens[:p], req.From, protocol.Sampling{})
		step := protocol.ScoreStep{Position: p, Top: candidates(best, req.TopK, e.opt.Info.Vocab)}
		if p < len(req.Tokens) {
			if step.Logprob = -10; req.Tokens[p] == best {
				step.Logprob = -0.125
			}
		}
		if err := emit(step); err != nil {
			return err
		}
	}
	return nil
}
