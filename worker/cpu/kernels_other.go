//go:build !amd64

package cpu

// machineKernels are the vector sets of this machine, the preferred one first.
func machineKernels() []*kernels { return nil }
