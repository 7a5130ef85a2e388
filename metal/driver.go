package metal

import "time"

// Driver is what a platform provides: Apple's Metal (package apple) or the simulator (package sim). Callers use Device,
// which checks every argument by the rules of both before a driver sees it; so drivers check only what they alone know.
// All calls come from one OS thread, except those of DriverBuffer.
type Driver interface {
	Info() Info
	// NewLibrary compiles MSL source; name is for messages only. A refusal is a *CompileError.
	NewLibrary(name, source string) (DriverLibrary, error)
	// NewBuffer makes zeroed memory, aligned to 16 KiB, which CPU and GPU share where the hardware does.
	NewBuffer(length int64) (DriverBuffer, error)
	// WrapBuffer makes a buffer of memory that stays the caller's, page-aligned and a multiple of pages long. A platform
	// without shared memory returns ErrNoSharedMemory.
	WrapBuffer(memory []byte) (DriverBuffer, error)
	// NewDispatch prepares l, which is checked and not changed afterwards; its Bytes are copied.
	NewDispatch(l *Launch) (DriverDispatch, error)
	// NewRecording prepares a fixed sequence of dispatches and barriers (nil).
	NewRecording(ops []DriverDispatch) (DriverRecording, error)
	NewPass() (DriverPass, error)
	NewEvent() (DriverEvent, error)
	// Close frees what is left. Everything made by the driver is closed before.
	Close() error
}

// DriverLibrary is a compiled source.
type DriverLibrary interface {
	NewPipeline(function string, constants []Constant) (DriverPipeline, error)
	Close()
}

// DriverPipeline is a kernel, specialised.
type DriverPipeline interface {
	// MaxThreads is the most threads of a threadgroup. It depends on the kernel's registers, so it differs by pipeline.
	MaxThreads() int
	// ThreadgroupMemory is the bytes of the kernel's own threadgroup arrays.
	ThreadgroupMemory() int
	Close()
}

// DriverBuffer is memory. Its methods may be called from any goroutine, for ranges that no pass in flight touches.
type DriverBuffer interface {
	Read(dst []byte, offset int64) error
	Write(src []byte, offset int64) error
	// Memory is the CPU's view of the buffer, nil where the platform has none.
	Memory() []byte
	Close()
}

// DriverDispatch is a prepared launch.
type DriverDispatch interface {
	// SetBytes replaces the constants for later encodings; the length is that of Launch.Bytes.
	SetBytes(b []byte)
	// SetGroups replaces Launch.Groups for later encodings.
	SetGroups(groups Size)
	Close()
}

// DriverRecording is a prepared sequence of dispatches.
type DriverRecording interface{ Close() }

// DriverPass is a command buffer with one concurrent compute encoder. Encoding allocates nothing.
type DriverPass interface {
	Begin() error
	Dispatch(d DriverDispatch)
	// Barrier makes what earlier dispatches of the pass wrote visible to later ones.
	Barrier()
	Replay(r DriverRecording)
	// Signal sets e to value when everything encoded so far is done.
	Signal(e DriverEvent, value uint64)
	Commit() error
	// Wait returns when the pass is done: nil, or a *PassError.
	Wait() error
	// Times are the seconds at which the GPU started and ended the pass, on a clock of its own; zeros where unknown.
	Times() (start, end float64)
	Close()
}

// DriverEvent is a counter that the GPU sets and the CPU waits for.
type DriverEvent interface {
	Value() uint64
	// Wait reports whether the counter reached value before the timeout.
	Wait(value uint64, timeout time.Duration) bool
	Close()
}
