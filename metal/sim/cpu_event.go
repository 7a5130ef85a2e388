//go:build linux && amd64 && !nosim

package sim

import (
	"sync/atomic"
	"time"

	"lilypad/metal"
)

type cpuEvent struct{ value atomic.Uint64 }

// NewEvent makes a counter at 0.
func (d *cpuDriver) NewEvent() (metal.DriverEvent, error) { return &cpuEvent{}, nil }

func (e *cpuEvent) Value() uint64 { return e.value.Load() }

// Wait polls: it allocates nothing, and a simulated pass takes milliseconds.
func (e *cpuEvent) Wait(value uint64, timeout time.Duration) bool {
	start := time.Now()
	for e.value.Load() < value {
		if time.Since(start) > timeout {
			return false
		}
		time.Sleep(20 * time.Microsecond)
	}
	return true
}

func (e *cpuEvent) Close() {}
