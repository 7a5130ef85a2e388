package generate

import "lilypad/protocol"

// schedule is how a prefix of the sequence was computed.
type schedule struct {
	segments []protocol.Segment
	tokens   int // sum of the segments
}

// add appends segments; steps of decoding merge, chunks of prefill don't.
func (s *schedule) add(segments ...protocol.Segment) {
	for _, seg := range segments {
		s.tokens += seg.N
		if last := len(s.segments) - 1; seg.Kind == protocol.Decode && last >= 0 && s.segments[last].Kind == protocol.Decode {
			s.segments[last].N += seg.N
			continue
		}
		s.segments = append(s.segments, seg)
	}
}

// ledger is the truth of a generation: its tokens, and how and by which arithmetic they were computed.
type ledger struct {
	prompt   int
	tokens   []int32 // prompt and sampled
	numerics string  // numerics id that computed belongs to
	computed schedule
}

func (l *ledger) sampled() int { return len(l.tokens) - l.prompt }

// replay returns the schedule that reproduces the ledger's tokens, and whether it is complete. The newest tokens may not
// have been computed when the worker died; each of them would have been one step of decoding.
func (l *ledger) replay() (segments []protocol.Segment, complete bool) {
	if l.sampled() == 0 {
		return l.computed.segments, true // nobody has seen anything that a new schedule could contradict
	}
	if l.computed.tokens < l.prompt {
		return l.computed.segments, false
	}
	s := schedule{segments: append([]protocol.Segment(nil), l.computed.segments...), tokens: l.computed.tokens}
	if missing := len(l.tokens) - s.tokens; missing > 0 {
		s.add(protocol.Segment{Kind: protocol.Decode, N: missing})
	}
	return s.segments, true
}
