// Package state keeps the states of sequences: which token prefixes are computed, their checkpoints, and what is dropped
// when the byte budget is full. It knows backends only through Sequence and must not import one.
package state

import "errors"

// Sequence is the mutable state of one token sequence in a backend: KV cache, conv windows, recurrent states. All calls
// come from the compute thread.
type Sequence interface {
	// Len is the number of tokens computed.
	Len() int
	// Forward computes tokens as one chunk after the Len() tokens before it. It writes the logits of the last rows of the
	// chunk to logits, fp32 [rows, vocab] row-major; rows may be 0, and is at most len(tokens). A failed Forward leaves
	// Len unchanged but the sequence unusable except for Close.
	Forward(tokens []int32, rows int, logits []float32) error
	// Grow makes room for n more tokens, or returns an error of protocol.CodeMemory and changes nothing.
	Grow(n int) error
	// Snapshot freezes the state at Len. It copies conv and recurrent states and shares the KV computed so far.
	Snapshot() (Snapshot, error)
	// Bytes is the memory that only this sequence holds (KV shared with a snapshot counts in neither, see Pool).
	Bytes() int64
	// Close frees it. It is safe to call twice.
	Close()
}

// Stoppable is a Sequence whose long Forward can be ended before its time.
type Stoppable interface {
	// ForwardUntil is Forward that asks stop now and then, unless it is nil. When it says true, ForwardUntil returns ErrStopped
	// and the sequence is as before or has computed some of the tokens, and can go on.
	ForwardUntil(stop func() bool, tokens []int32, rows int, logits []float32) error
}

// ErrStopped is what ForwardUntil returns when stop ended it.
var ErrStopped = errors.New("stopped before all tokens were computed")

// Router is a Backend that counts the rows that experts get.
type Router interface {
	// ExpertLoads is the rows of chunks that each expert of each layer with experts got so far.
	ExpertLoads() ([][]int64, error)
}

// Snapshot is an immutable state that sequences start from.
type Snapshot interface {
	Len() int
	// Resume makes a sequence of its own that continues here; the two share no mutable memory.
	Resume() (Sequence, error)
	Bytes() int64
	Close()
}

// Backend makes sequences for one loaded checkpoint.
type Backend interface {
	// Kernels names backend and kernel set, such as "cpu/go-amd64": states are only exchanged under the same name.
	Kernels() string
	// ChunkIndependent is true when a token's bits do not depend on how tokens were cut into chunks.
	ChunkIndependent() bool
	// Chunk is the most tokens that are worth computing in one Forward.
	Chunk() int
	New() (Sequence, error)
	// Bytes is the memory of all live sequences and snapshots, shared blocks counted once.
	Bytes() int64
	// SnapshotBytes and TokenBytes are the sizes of a snapshot's own memory and of one token's KV.
	SnapshotBytes() int64
	TokenBytes() int64
	Close() error
}
