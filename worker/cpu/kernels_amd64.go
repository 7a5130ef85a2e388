package cpu

import "golang.org/x/sys/cpu"

// machineKernels are the vector sets of this machine, the preferred one first.
func machineKernels() (sets []*kernels) {
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI {
		sets = append(sets, &kernels{name: "avx512", rowKernels: avx512Rows(), mixerKernels: avx512Mixers()})
	}
	if x.HasAVX2 && x.HasFMA {
		sets = append(sets, &kernels{name: "avx2", rowKernels: avx2Rows(), mixerKernels: avx2Mixers()})
	}
	return sets
}
