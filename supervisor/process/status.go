package process

import (
	"maps"
	"time"

	"lilypad/protocol"
)

// State is what a Manager is busy with.
type State string

// The states of a Manager.
const (
	Starting State = "starting" // a process is being started
	Loading  State = "loading"  // it loads the checkpoint
	Ready    State = "ready"
	Backoff  State = "backoff" // the next start waits for time or memory
	Broken   State = "broken"  // as Backoff, and Worker returns ErrUnstable meanwhile
	Refused  State = "refused" // the checkpoint can't run
	Stopping State = "stopping"
	Stopped  State = "stopped"
)

// Status is a snapshot of a Manager.
type Status struct {
	State       State
	Since       time.Time             // when State began
	Incarnation int                   // of the worker that runs or ran last, from 1
	PID         int                   // 0 if none
	Load        protocol.LoadProgress // of this incarnation
	Err         error                 // why Worker returns an error
	Until       time.Time             // earliest next start in Backoff and Broken
	Restarts    map[Cause]int         // deaths that were followed by a restart
	Last        *Verdict              // of the last death
	Beat        protocol.Beat         // heartbeat now
	Quiet       time.Duration         // time without progress while some was due
	Answers     bool                  // the last ping was answered
}

// Progressing is true when the worker answers pings and no progress is overdue by more than five seconds.
func (s *Status) Progressing() bool { return s.Answers && s.Quiet < 5*time.Second }

// Status returns a snapshot.
func (m *Manager) Status() Status {
	m.mu.Lock()
	s, c := m.status, m.child
	s.Restarts = maps.Clone(s.Restarts)
	m.mu.Unlock()
	if c != nil {
		s.Beat, s.Quiet, s.Answers = c.beat(), time.Duration(c.quiet.Load()), c.answers.Load()
	}
	return s
}
