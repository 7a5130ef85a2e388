// Package sim runs Metal kernels without a Mac: the same MSL text, behind the same API, on the CPU of a Linux machine
// (sim:cpu), on an NVIDIA GPU (sim:cuda), or not at all, only counted (sim:count). MSL goes through package msl and clang.
// Package sim must not import anything of ours but package metal and what is below it.
package sim

import (
	"errors"
	"fmt"

	"lilypad/metal"
)

// ErrNoCompiler is wrapped by errors of a machine that has no clang-16 on its PATH.
var ErrNoCompiler = errors.New("clang-16 is not on the PATH")

// Target is what stands in for the GPU.
type Target int

// The targets.
const (
	CPU   Target = iota // every thread of a kernel is a fiber
	CUDA                // an NVIDIA GPU
	Count               // kernels don't run: passes are counted (Options.Tally)
)

// Options say how to simulate. The zero value is fast: sim:cpu on all cores, without checks.
type Options struct {
	Target  Target
	Threads int // of sim:cpu; 0: one for each core

	// Check makes sim:cpu use one core, run fibers and threadgroups in random order, and fail a pass whose kernels break a
	// rule that Metal leaves unchecked: a barrier that not all threads reach, a simdgroup operation without some of its
	// lanes, a misaligned access, one outside the bindings or against their Access, a plain load of what another
	// threadgroup of the dispatch stored, a missing barrier between two dispatches.
	Check bool
	// Exact, with Check, also fails a dispatch whose unique bytes read or written are not what its bindings declare.
	Exact bool
	// Seed of the random order; 0: one that is the same in every run.
	Seed uint64
	// Poison fills new buffers with bytes 0xff, which are NaN in every float type, where a real GPU gives zeros.
	Poison bool
	// Tally, with Target Count, is what passes are added to. The caller may reset it between passes.
	Tally *Tally
	// CacheDir keeps what was compiled; "" for lilypad/sim in the user's cache directory.
	CacheDir string
}

// Open returns a simulated device. Where the target can't run, the error says why: no clang (ErrNoCompiler), no NVIDIA
// driver, another operating system.
func Open(o Options) (*metal.Device, error) {
	var driver metal.Driver
	var err error
	switch o.Target {
	case CPU:
		driver, err = openCPU(o)
	case CUDA:
		driver, err = openCUDADriver(o)
	case Count:
		driver = newCounter(o.Tally)
	default:
		err = fmt.Errorf("target %d", o.Target)
	}
	if err == nil && o.Target != CUDA {
		driver = collecting(driver, o)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the simulator: %w", err)
	}
	return metal.NewDevice(driver), nil
}
