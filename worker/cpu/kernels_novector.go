//go:build !amd64 && !arm64

package cpu

// vectorScratch is empty where there is no vector set.
type vectorScratch struct{}

func newVectorScratch(int) vectorScratch { return vectorScratch{} }
