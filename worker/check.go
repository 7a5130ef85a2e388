package worker

import (
	"slices"

	"lilypad/protocol"
)

// Limits of a request that no honest supervisor reaches.
const (
	mostTop     = 20
	mostScored  = 1024
	mostMarks   = 1024 // checkpoints and stop ids of one request
	mostIDBytes = 256
)

func invalid(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalid, format, args...)
}

// checkTokens refuses ids that have no token.
func (l *loaded) checkTokens(ids []int32) error {
	for i, id := range ids {
		if !l.tokenizer.Has(id) {
			return invalid("token %d at position %d is none of the model's", id, i)
		}
	}
	return nil
}

// checkPrompt checks what Generate and Score have in common; limit is the most tokens that fit.
func (l *loaded) checkPrompt(id string, tokens []int32, limit int) error {
	switch {
	case len(id) > mostIDBytes:
		return invalid("the request's id has %d bytes, want at most %d", len(id), mostIDBytes)
	case len(tokens) == 0:
		return invalid("the request has no tokens, want at least 1")
	case len(tokens) > limit:
		err := protocol.Errorf(protocol.CodeContextLength, "the prompt has %d tokens, but at most %d fit: shorten it, or start with a larger --context", len(tokens), limit)
		err.Have, err.Want = int64(len(tokens)), int64(limit)
		return err
	}
	return l.checkTokens(tokens)
}

// checkGenerate refuses what would not mean anything.
func (l *loaded) checkGenerate(req *protocol.GenerateRequest) error {
	if req.Numerics != "" && req.Numerics != l.info.Numerics {
		return protocol.Errorf(protocol.CodeNumerics, "the schedule belongs to numerics %s, but this engine is %s", req.Numerics, l.info.Numerics)
	}
	if err := l.checkPrompt(req.ID, req.Tokens, l.info.Context-1); err != nil {
		return err
	}
	switch {
	case req.Prompt < 0 || req.Prompt > len(req.Tokens):
		return invalid("prompt length %d, want 0 to the number of tokens, %d", req.Prompt, len(req.Tokens))
	case req.MaxTokens < 1:
		return invalid("max tokens %d, want at least 1", req.MaxTokens)
	case req.TopLogprobs < 0 || req.TopLogprobs > mostTop:
		return invalid("top logprobs %d, want 0 to %d", req.TopLogprobs, mostTop)
	case len(req.StopIDs) > mostMarks || len(req.Checkpoints) > mostMarks:
		return invalid("%d stop ids and %d checkpoints, want at most %d of each", len(req.StopIDs), len(req.Checkpoints), mostMarks)
	case !slices.IsSorted(req.Checkpoints):
		return invalid("checkpoint positions are not in ascending order")
	}
	for _, p := range req.Checkpoints {
		if p < 0 || p > l.info.Context {
			return invalid("checkpoint at %d, want 0 to the context, %d", p, l.info.Context)
		}
	}
	for _, id := range req.StopIDs {
		if id < 0 || int(id) >= l.info.Vocab {
			return invalid("stop id %d is outside the vocabulary of %d", id, l.info.Vocab)
		}
	}
	if err := checkSampling(req.Sampling); err != nil {
		return err
	}
	return checkSchedule(req.Schedule, len(req.Tokens))
}

// checkSampling is written so that a NaN fails every test.
func checkSampling(s protocol.Sampling) error {
	const most = 1e6 // any temperature above 100 or so is uniform already
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= most):
		return invalid("temperature %v, want 0 to %v", s.Temperature, most)
	case s.TopK < 0:
		return invalid("top k %d, want at least 0", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return invalid("top p %v, want 0 to 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return invalid("min p %v, want 0 to 1", s.MinP)
	}
	return nil
}

// checkSchedule refuses a schedule that does not compute a prefix of n tokens.
func checkSchedule(schedule []protocol.Segment, n int) error {
	left := n
	for i, s := range schedule {
		switch {
		case s.Kind != protocol.Prefill && s.Kind != protocol.Decode:
			return invalid("segment %d of the schedule has kind %d, want %d or %d", i, s.Kind, protocol.Prefill, protocol.Decode)
		case s.N < 1:
			return invalid("segment %d of the schedule has %d tokens, want at least 1", i, s.N)
		case s.Kind == protocol.Prefill && s.N > scheduledChunk:
			return invalid("segment %d of the schedule is a chunk of %d tokens, want at most %d", i, s.N, scheduledChunk)
		case s.N > left:
			return invalid("segment %d of the schedule has %d tokens, but only %d of %d are left", i, s.N, left, n)
		}
		left -= s.N
	}
	return nil
}
