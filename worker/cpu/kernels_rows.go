package cpu

import "lilypad/worker/checkpoint"

// rowKernels multiply weights by rows of activations.
type rowKernels struct {
	// mulRows computes rows [r, r+n) of w times m rows of activations: out[t*outStride(n)+i] = w[r+i]·x[index[t]], or
	// x[first+t] where index is nil. out has room for m rows, rounded up to 4. The bits of an output depend on its two rows
	// alone.
	mulRows func(s *scratch, out []float32, w *checkpoint.Matrix, r, n int, x *batch, index []int32, first, m int)
	// wantsSums says that mulRows reads the block sums of activations.
	wantsSums bool
}

// outStride is how far apart the results for two rows of activations are.
func outStride(n int) int { return (n + 3) &^ 3 }

func goRows() rowKernels { return rowKernels{mulRows: mulRowsGo, wantsSums: true} }
