package kernels_test

import (
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// openChecked opens the simulator that checks all it can.
func openChecked(t testing.TB) *metal.Device {
	t.Helper()
	return simtest.Open(t, sim.Options{Target: sim.CPU, Check: true})
}
