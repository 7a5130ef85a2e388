package protocol

import "time"

// File descriptors that the supervisor hands to the worker.
const (
	LifelineFD  = 3 // read end of a pipe: end of file means that the supervisor is gone
	HeartbeatFD = 4 // the heartbeat page, a file to map
)

// Phase is what the worker's compute thread is doing.
type Phase uint32

// The phases of a heartbeat.
const (
	PhaseStart Phase = iota
	PhaseLoad
	PhaseIdle
	PhasePrefill
	PhaseDecode
	PhaseUnload
)

// Beat is one reading of the heartbeat page.
type Beat struct {
	Phase   Phase
	Layer   int       // layer being computed
	Step    uint64    // counts every piece of progress: bytes loaded, layers, chunks and tokens computed
	Bytes   int64     // memory allocated for weights and states
	Request string    // GenerateRequest.ID being computed, at most 63 bytes
	At      time.Time // of the last write, by the worker's clock
}
