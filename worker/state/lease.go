package state

import (
	"errors"
	"slices"

	"lilypad/protocol"
)

// Lease is a state lent to one request, which alone changes it until Release or Discard.
type Lease struct {
	store    *Store
	tokens   []int32
	schedule []protocol.Segment
	seq      Sequence // nil once released
	broken   bool     // a Forward failed: the sequence is good for nothing but Close
	stop     func() bool
	one      [1]int32 // argument of a decode step
}

// Len is the number of tokens computed.
func (l *Lease) Len() int { return len(l.tokens) }

// Tokens are those computed; the caller must not write them.
func (l *Lease) Tokens() []int32 { return l.tokens[:len(l.tokens):len(l.tokens)] }

// StopWhen lets stop end a Prefill between two steps of the backend, where that can be; it then returns ErrStopped.
func (l *Lease) StopWhen(stop func() bool) { l.stop = stop }

// Prefill computes tokens as one chunk and writes the logits of its last rows, fp32 [rows, vocab]. After an error of
// protocol.CodeMemory from making room the state is as before; after any other it can only be released.
func (l *Lease) Prefill(tokens []int32, rows int, logits []float32) error {
	return l.compute(protocol.Prefill, tokens, rows, logits)
}

// Decode computes one token in a step of its own; logits, fp32 [vocab], may be nil when nobody needs them.
func (l *Lease) Decode(token int32, logits []float32) error {
	rows := 1
	if logits == nil {
		rows = 0
	}
	l.one[0] = token
	return l.compute(protocol.Decode, l.one[:], rows, logits)
}

func (l *Lease) compute(kind protocol.SegmentKind, tokens []int32, rows int, logits []float32) error {
	if err := l.store.making(func() error { return l.seq.Grow(len(tokens)) }); err != nil {
		return err
	}
	err := l.forward(tokens, rows, logits)
	switch {
	case err == nil:
		l.add(kind, tokens)
	case errors.Is(err, ErrStopped):
		l.add(kind, tokens[:l.seq.Len()-len(l.tokens)])
	default:
		l.broken = true
	}
	return err
}

// add says that tokens were computed.
func (l *Lease) add(kind protocol.SegmentKind, tokens []int32) {
	l.tokens = append(l.tokens, tokens...)
	if len(tokens) > 0 {
		l.schedule = Append(l.schedule, protocol.Segment{Kind: kind, N: len(tokens)})
	}
}

func (l *Lease) forward(tokens []int32, rows int, logits []float32) error {
	if s, ok := l.seq.(Stoppable); ok {
		return s.ForwardUntil(l.stop, tokens, rows, logits)
	}
	return l.seq.Forward(tokens, rows, logits)
}

// Checkpoint keeps the present state for later requests. A wanted one may push out what was used longest ago, one made
// in passing only others of its kind. Having no memory for it is no error: a checkpoint is a cache.
func (l *Lease) Checkpoint(wanted bool) error {
	if len(l.tokens) == 0 {
		return nil
	}
	if h := l.store.checkpointAt(l); h != nil {
		h.wanted = h.wanted || wanted
		h.used = l.store.clock
		return nil
	}
	var snap Snapshot
	for {
		var err error
		if snap, err = l.seq.Snapshot(); err == nil {
			break
		}
		if protocol.CodeOf(err) != protocol.CodeMemory {
			return err
		}
		if wanted && l.store.drop() || !wanted && l.store.thin() {
			continue
		}
		return nil
	}
	l.store.keep(&held{tokens: l.Tokens(), schedule: slices.Clone(l.schedule), snap: snap, wanted: wanted})
	return nil
}

// checkpointAt is the checkpoint that holds the same state as l, if there is one.
func (s *Store) checkpointAt(l *Lease) *held {
	for _, h := range s.held {
		if h.snap != nil && s.same(h, l) {
			return h
		}
	}
	return nil
}

// same says that h and l hold the same bits.
func (s *Store) same(h *held, l *Lease) bool {
	return len(h.tokens) == len(l.tokens) && isPrefix(h.tokens, l.tokens) &&
		(s.backend.ChunkIndependent() || Agree(h.schedule, l.schedule))
}

// Release ends the loan: the state stays cached as an idle one, in place of another that holds the same bits. A broken
// or empty one is freed. Further calls do nothing.
func (l *Lease) Release() {
	if l.seq == nil {
		return
	}
	if l.broken || len(l.tokens) == 0 {
		l.Discard()
		return
	}
	s := l.store
	s.clock++
	for _, h := range slices.Clone(s.held) {
		switch {
		case h.seq != nil && s.same(h, l):
			s.forget(h)
			h.close()
		case isPrefix(h.tokens, l.tokens):
			h.used = s.clock
		}
	}
	delete(s.leases, l)
	s.keep(&held{tokens: l.tokens, schedule: l.schedule, seq: l.seq})
	l.seq = nil
}

// Discard ends the loan and frees the state. Further calls do nothing.
func (l *Lease) Discard() {
	if l.seq == nil {
		return
	}
	delete(l.store.leases, l)
	l.seq.Close()
	l.seq = nil
}
