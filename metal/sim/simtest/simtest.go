// Package simtest opens simulated devices for tests. It must not import anything of ours but packages metal and sim.
package simtest

import (
	"errors"
	"os"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
)

// Open returns a device that is closed when the test ends. The environment variable LILYPAD_SIM=cuda chooses the NVIDIA
// GPU instead of sim:cpu, count the target that runs nothing (to collect PTX). Without clang, where sim:cpu can't run, and
// under the race detector, the test is skipped.
func Open(t testing.TB, o sim.Options) *metal.Device {
	t.Helper()
	if raceDetector {
		t.Skip("simulated kernels are C, of which the race detector sees nothing, and take several times as long under it")
	}
	if target, ok := map[string]sim.Target{"cuda": sim.CUDA, "count": sim.Count}[os.Getenv("LILYPAD_SIM")]; ok && o.Target == sim.CPU {
		o.Target = target
	}
	d, err := sim.Open(o)
	if errors.Is(err, sim.ErrNoCompiler) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
