package process

import (
	"time"

	"lilypad/protocol"
)

// stall measures how long a worker has made no progress. It adds up the time between observations, each counted as at
// most twice the interval of observing: a suspended machine or a jumping clock is no stall of the worker.
type stall struct {
	limits   Limits
	interval time.Duration
	last     time.Time
	step     uint64
	quiet    time.Duration
}

// observe takes a heartbeat and whether the worker answers pings, and reports a stall.
func (s *stall) observe(now time.Time, b protocol.Beat, answers bool) bool {
	elapsed := max(0, min(now.Sub(s.last), 2*s.interval))
	if s.last.IsZero() {
		elapsed = 0
	}
	s.last = now
	limit := s.limit(b.Phase)
	switch {
	case b.Step != s.step:
		s.step, s.quiet = b.Step, 0
	case limit == 0 && answers:
		s.quiet = 0
	default:
		s.quiet += elapsed
	}
	if !answers && (limit == 0 || limit > s.limits.Silent) {
		limit = s.limits.Silent
	}
	return limit > 0 && s.quiet > limit
}

// limit is the time without progress that a phase may take; 0 means that only pings count.
func (s *stall) limit(p protocol.Phase) time.Duration {
	switch p {
	case protocol.PhaseStart:
		return s.limits.Start
	case protocol.PhaseLoad, protocol.PhaseUnload:
		return s.limits.Load
	case protocol.PhasePrefill:
		return s.limits.Prefill
	case protocol.PhaseDecode:
		return s.limits.Decode
	}
	return 0
}
