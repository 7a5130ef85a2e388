package state

import "lilypad/protocol"

// match finds the cached state that serves the longest prefix of tokens, at most len(tokens)-1 of them, and says why it
// does not serve more (see protocol.Started.Miss). States on the way are marked as used.
func (s *Store) match(tokens []int32, schedule []protocol.Segment) (best *held, miss string) {
	limit := len(tokens) - 1
	anySchedule := len(schedule) == 0 || s.backend.ChunkIndependent()
	longest, branches := 0, false // of all that is or was computed: common tokens, and whether one goes on differently
	refused := 0                  // tokens of a state that only its schedule rules out
	for _, h := range s.held {
		n := common(h.tokens, tokens)
		longest, branches = further(longest, branches, n, len(h.tokens) > n)
		switch {
		case n < len(h.tokens) || n > limit:
		case !anySchedule && !Agree(schedule, h.schedule):
			refused = max(refused, n)
		default:
			h.used = s.clock
			if best == nil || n > len(best.tokens) || n == len(best.tokens) && h.seq != nil {
				best = h
			}
		}
	}
	for l := range s.leases {
		n := common(l.tokens, tokens)
		longest, branches = further(longest, branches, n, len(l.tokens) > n)
	}
	cached := 0
	if best != nil {
		cached = len(best.tokens)
	}
	switch {
	case cached == limit:
		return best, ""
	case refused > cached:
		return best, "numerics"
	case s.ghost(tokens[:limit]) > cached:
		return best, "evicted"
	case longest > cached:
		return best, "no checkpoint"
	case longest > 0 && branches:
		return best, "diverged"
	}
	return best, "new"
}

// further merges one more sequence, with n tokens in common, into what is known of the longest.
func further(longest int, branches bool, n int, goesOn bool) (int, bool) {
	switch {
	case n > longest:
		return n, goesOn
	case n == longest:
		return n, branches || goesOn
	}
	return longest, branches
}

// ghost is the length of the longest dropped state that would have served tokens.
func (s *Store) ghost(tokens []int32) int {
	longest := 0
	for _, g := range s.ghosts {
		if len(g) > longest && isPrefix(g, tokens) {
			longest = len(g)
		}
	}
	return longest
}

// common is the number of tokens that two sequences begin with alike.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// isPrefix says whether tokens begins with p. It looks at the end first: sequences that differ mostly differ there.
func isPrefix(p, tokens []int32) bool {
	n := len(p)
	return n == 0 || n <= len(tokens) && p[n-1] == tokens[n-1] && common(p, tokens) == n
}
