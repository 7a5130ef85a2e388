package cpu

func avx2Mixers() mixerKernels { return goMixers() }

func avx512Mixers() mixerKernels { return avx2Mixers() }
