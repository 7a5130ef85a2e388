package fake

import (
	"slices"

	"lilypad/protocol"
)

// maxCached bounds the cached sequences; the oldest goes first.
const maxCached = 16

// sequence is a computed sequence that later requests may continue.
type sequence struct {
	tokens   []int32
	schedule []protocol.Segment // sums to len(tokens)
	points   []int              // positions that a request can start from, ascending; the last one is len(tokens)
}

// find returns how many leading tokens of a request are cached, their schedule, the points at or below, and why no more.
func (e *Engine) find(tokens []int32) (n int, schedule []protocol.Segment, points []int, miss string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	miss = "new"
	longest := 0
	for _, c := range e.cache {
		common := 0
		for common < min(len(c.tokens), len(tokens)) && c.tokens[common] == tokens[common] {
			common++
		}
		at := 0
		for _, p := range c.points {
			if p <= common && p < len(tokens) {
				at = p
			}
		}
		if at > n {
			n = at
			schedule = cut(c.schedule, at)
			points = slices.DeleteFunc(slices.Clone(c.points), func(p int) bool { return p > at })
		}
		if common <= longest {
			continue
		}
		longest = common
		switch {
		case at < min(common, len(tokens)-1):
			miss = "no checkpoint"
		case common < len(c.tokens) && common < len(tokens):
			miss = "diverged"
		default:
			miss = "new"
		}
	}
	if n == len(tokens)-1 {
		miss = ""
	}
	return n, schedule, points, miss
}

// keep caches what a generation computed, in place of the prefixes of it that were cached.
func (e *Engine) keep(s *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(s.tokens) == 0 || e.unloaded {
		return
	}
	if s.points = append(s.points, len(s.tokens)); len(s.points) > 1 && s.points[len(s.points)-2] == len(s.tokens) {
		s.points = s.points[:len(s.points)-1]
	}
	e.cache = slices.DeleteFunc(e.cache, func(c *sequence) bool {
		return len(c.tokens) <= len(s.tokens) && slices.Equal(c.tokens, s.tokens[:len(c.tokens)])
	})
	e.cache = append(e.cache, s)
	if len(e.cache) > maxCached {
		e.cache = e.cache[1:]
	}
}

// cut returns the part of a schedule that covers the first n tokens.
func cut(schedule []protocol.Segment, n int) []protocol.Segment {
	var out []protocol.Segment
	for _, s := range schedule {
		if s.N = min(s.N, n); s.N > 0 {
			out = append(out, s)
		}
		n -= s.N
	}
	return out
}

// skip returns the part of a schedule after the first n tokens.
func skip(schedule []protocol.Segment, n int) []protocol.Segment {
	var out []protocol.Segment
	for _, s := range schedule {
		d := min(s.N, n)
		n -= d
		if s.N -= d; s.N > 0 {
			out = append(out, s)
		}
	}
	return out
}

// extend appends a segment; runs of decode steps become one.
func extend(schedule []protocol.Segment, s protocol.Segment) []protocol.Segment {
	if n := len(schedule); n > 0 && s.Kind == protocol.Decode && schedule[n-1].Kind == protocol.Decode {
		schedule[n-1].N += s.N
		return schedule
	}
	return append(schedule, s)
}
