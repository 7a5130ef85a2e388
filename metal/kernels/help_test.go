package kernels_test

import (
	"testing"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// newSet opens a device, and a set of kernels on it.
func newSet(t *testing.T, o sim.Options) (*metal.Device, *kernels.Set) {
	t.Helper()
	device := simtest.Open(t, o)
	set := kernels.New(device)
	t.Cleanup(set.Close)
	return device, set
}

// exact fails a dispatch that does not read and write just what its wrapper declares.
var exact = sim.Options{Check: true, Exact: true}

func newArena(t *testing.T, device *metal.Device, bytes int64, seed uint64) *fixture.Arena {
	t.Helper()
	a, err := fixture.New(device, bytes, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// newFixture opens a device of its own, with a set and an arena; declared bytes must be exact.
func newFixture(t *testing.T, bytes int64, seed uint64) (*metal.Device, *kernels.Set, *fixture.Arena) {
	t.Helper()
	device, set := newSet(t, exact)
	return device, set, newArena(t, device, bytes, seed)
}

// runFixture uploads the arena, runs op and downloads the arena again.
func runFixture(t *testing.T, device *metal.Device, arena *fixture.Arena, op *metal.Dispatch, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	if err := arena.Upload(); err != nil {
		t.Fatal(err)
	}
	if err := fixture.Run(device, op); err != nil {
		t.Fatal(err)
	}
	if err := arena.Download(); err != nil {
		t.Fatal(err)
	}
}
