package state

import (
	"cmp"
	"slices"

	"lilypad/protocol"
)

// making runs op, which asks the backend for memory, and drops cached states one by one while the backend refuses.
func (s *Store) making(op func() error) error {
	for {
		err := op()
		if protocol.CodeOf(err) != protocol.CodeMemory || !s.drop() {
			return err
		}
	}
}

// drop frees the state that is needed least, or returns false when none is left. First go checkpoints made in passing
// that have a newer state behind them, then whatever was used longest ago; of one conversation the idle sequence goes
// first, since the template drops reasoning and so the next turn branches off before it, and the newest checkpoint last.
func (s *Store) drop() bool {
	if s.thin() {
		return true
	}
	var victim *held
	for _, h := range s.held {
		if !h.pinned && (victim == nil || older(h, victim)) {
			victim = h
		}
	}
	return victim != nil && s.bury(victim)
}

// thin frees the checkpoint made in passing that was used longest ago and has a newer state behind it.
func (s *Store) thin() bool {
	var victim *held
	for _, h := range s.held {
		if !h.pinned && s.thinnable(h) && (victim == nil || older(h, victim)) {
			victim = h
		}
	}
	return victim != nil && s.bury(victim)
}

// bury frees a state and remembers its tokens.
func (s *Store) bury(victim *held) bool {
	s.forget(victim)
	victim.close()
	if len(s.ghosts) == maxGhost {
		s.ghosts = slices.Delete(s.ghosts, 0, 1)
	}
	s.ghosts = append(s.ghosts, victim.tokens)
	return true
}

// thinnable says that h is a checkpoint nobody asked for and that a longer state of the same conversation exists.
func (s *Store) thinnable(h *held) bool {
	if h.snap == nil || h.wanted {
		return false
	}
	longer := func(tokens []int32) bool { return len(tokens) > len(h.tokens) && isPrefix(h.tokens, tokens) }
	for _, other := range s.held {
		if longer(other.tokens) {
			return true
		}
	}
	for l := range s.leases {
		if longer(l.tokens) {
			return true
		}
	}
	return false
}

// older says that a should be dropped before b.
func older(a, b *held) bool {
	if a.used != b.used {
		return a.used < b.used
	}
	if (a.seq != nil) != (b.seq != nil) {
		return a.seq != nil
	}
	return cmp.Less(len(a.tokens), len(b.tokens))
}
