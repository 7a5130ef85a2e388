package cpu

// mixerKernels are the inner loops of vectors, attention and Gated DeltaNet.
type mixerKernels struct{}

func goMixers() mixerKernels { return mixerKernels{} }
