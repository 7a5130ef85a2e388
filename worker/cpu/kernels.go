package cpu

import (
	"runtime"
	"strings"

	"lilypad/protocol"
)

// kernels is one set of inner loops: all that differs between plain Go and the instruction sets of a machine. Within a set
// the summation order of every output is fixed, whatever the number of rows; between sets it may differ, so the name is
// part of the numerics id. Vector sets start as copies of the plain one and replace what they have.
type kernels struct {
	name string
	rowKernels
	mixerKernels
}

// goKernels is the set that every machine has.
func goKernels() *kernels {
	return &kernels{name: "go", rowKernels: goRows(), mixerKernels: goMixers()}
}

// kernelSets are the sets that this machine runs, the preferred one first; plain Go is the last.
func kernelSets() []*kernels { return append(machineKernels(), goKernels()) }

// KernelSets names the kernel sets that this machine runs, the preferred one first: "avx512" (F, BW, DQ, VL and VBMI),
// "avx2" (with FMA), "neon", and always "go".
func KernelSets() []string {
	var names []string
	for _, k := range kernelSets() {
		names = append(names, k.name)
	}
	return names
}

// kernelsNamed finds a set; an empty name is the preferred one. Sets that this machine can't run are an error of
// protocol.CodeInvalid that lists those it can.
func kernelsNamed(name string) (*kernels, error) {
	sets := kernelSets()
	if name == "" {
		return sets[0], nil
	}
	for _, k := range sets {
		if k.name == name {
			return k, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeInvalid, "cpu backend: no kernel set %q on this %s machine; it runs: %s", name, runtime.GOARCH, strings.Join(KernelSets(), ", "))
}
