//go:build linux && !nosim

package sim

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"lilypad/metal"
)

// counterMemory is memory of the CPU that the GPU writes: one uint64 for each event.
type counterMemory struct {
	at   uintptr
	free []int // counters not in use
}

const maxEvents = 512

func (m *counterMemory) open(d *cudaDriver) error {
	const portableMapped = 3 // CU_MEMHOSTALLOC_PORTABLE | _DEVICEMAP
	if err := d.call("allocating event counters", d.hostAlloc, uintptr(unsafe.Pointer(&m.at)), maxEvents*8, portableMapped); err != nil {
		return err
	}
	for i := range maxEvents {
		m.free = append(m.free, maxEvents-1-i)
	}
	return nil
}

func (m *counterMemory) close(d *cudaDriver) {
	if m.at != 0 {
		_ = d.call("freeing event counters", d.hostFree, m.at)
	}
}

// cudaEvent is a counter in the CPU's memory, which the stream writes after everything before it.
type cudaEvent struct {
	driver *cudaDriver
	index  int
	value  *atomic.Uint64
}

// NewEvent takes a counter and sets it to 0.
func (d *cudaDriver) NewEvent() (metal.DriverEvent, error) {
	m := &d.counters
	if len(m.free) == 0 {
		return nil, &metal.PassError{Failure: metal.OutOfMemory, Text: "making an event: 512 are in use"}
	}
	e := &cudaEvent{driver: d, index: m.free[len(m.free)-1]}
	m.free = m.free[:len(m.free)-1]
	e.value = (*atomic.Uint64)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&m.at)), 8*e.index))
	e.value.Store(0)
	return e, nil
}

func (e *cudaEvent) Value() uint64 { return e.value.Load() }

// Wait polls: at first without rest, since a token takes a few milliseconds, then every 50 us.
func (e *cudaEvent) Wait(value uint64, timeout time.Duration) bool {
	start := time.Now()
	for e.value.Load() < value {
		waited := time.Since(start)
		if waited > timeout {
			return false
		}
		if waited < 5*time.Millisecond {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
	return true
}

func (e *cudaEvent) Close() { e.driver.counters.free = append(e.driver.counters.free, e.index) }
