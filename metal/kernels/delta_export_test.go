package kernels

// DeltaOf is d with threadgroups of at most threads; 0: as many as the pipeline allows.
func DeltaOf(d Delta, threads int) Delta {
	d.mostThreads = threads
	return d
}
