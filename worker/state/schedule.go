package state

import "lilypad/protocol"

// Length is the number of tokens that a schedule computes.
func Length(schedule []protocol.Segment) int {
	n := 0
	for _, s := range schedule {
		n += s.N
	}
	return n
}

// Append adds a segment to a schedule; steps of decoding join those before them.
func Append(schedule []protocol.Segment, s protocol.Segment) []protocol.Segment {
	if last := len(schedule) - 1; last >= 0 && s.Kind == protocol.Decode && schedule[last].Kind == protocol.Decode {
		schedule[last].N += s.N
		return schedule
	}
	return append(schedule, s)
}

// Agree says whether two schedules compute the tokens that both cover in the same way: one is a prefix of the other,
// where a chunk can't be split but a run of decode steps can.
func Agree(a, b []protocol.Segment) bool {
	var x, y protocol.Segment // what is left of the current segment of each
	for {
		if x.N == 0 {
			if len(a) == 0 {
				return true
			}
			x, a = a[0], a[1:]
		}
		if y.N == 0 {
			if len(b) == 0 {
				return true
			}
			y, b = b[0], b[1:]
		}
		if x.Kind != y.Kind || x.Kind == protocol.Prefill && x.N != y.N {
			return false
		}
		n := min(x.N, y.N)
		x.N, y.N = x.N-n, y.N-n
	}
}
