package generate

import (
	"time"

	"lilypad/protocol"
	"lilypad/supervisor/process"
)

// The limits of design section 3, each counted since the last new token.
const (
	maxReplays   = 2                // replays of one generation
	maxCharged   = 2                // deaths charged to one generation that make it poison
	recoveryTime = 30 * time.Second // for the next worker to come, and from one piece of its progress to the next
	maxBeatID    = 63               // bytes of a request id in the heartbeat page
)

// limits decides how often and how long a generation is replayed.
type limits struct {
	id       string
	replays  int
	charged  int
	deadline time.Time // of the recovery that goes on; zero if none does
}

// left is the time that the next worker still has to show something.
func (l *limits) left() time.Duration {
	if l.recovering() {
		return time.Until(l.deadline)
	}
	return recoveryTime
}

func (l *limits) recovering() bool { return !l.deadline.IsZero() }

// progress gives a recovery new time: the replay of a long prompt may take longer than the limit as long as it moves.
func (l *limits) progress() { l.deadline = time.Now().Add(recoveryTime) }

// newToken ends a recovery and forgives all deaths before.
func (l *limits) newToken() { l.replays, l.charged, l.deadline = 0, 0, time.Time{} }

// death counts one and tells whether another replay is allowed; poison means that the generation itself kills workers.
func (l *limits) death(v process.Verdict) (replay, poison bool) {
	if l.isCharged(v) {
		l.charged++
	}
	if l.charged >= maxCharged {
		return false, true
	}
	if l.replays == maxReplays {
		return false, false
	}
	l.replays++
	l.progress()
	return true, false
}

// isCharged tells whether the dead worker was computing this generation. Kills from outside, kills for want of memory and
// our own are nobody's fault.
func (l *limits) isCharged(v process.Verdict) bool {
	switch v.Cause {
	case process.Killed, process.Jetsam, process.Ours:
		return false
	}
	id := l.id
	if len(id) > maxBeatID {
		id = id[:maxBeatID]
	}
	return v.Beat.Request == id && id != ""
}

// phaseOf names a phase of the heartbeat for a client.
func phaseOf(p protocol.Phase) string {
	switch p {
	case protocol.PhaseStart:
		return "start"
	case protocol.PhaseLoad:
		return "load"
	case protocol.PhasePrefill:
		return "prefill"
	case protocol.PhaseDecode:
		return "decode"
	case protocol.PhaseUnload:
		return "unload"
	}
	return "idle"
}
