package cpu

// mixerKernels are the inner loops of vectors, attention and Gated DeltaNet. Vector sets differ from plain Go in rounding
// (fused multiply-adds, sums in lanes, exp in fp32) but keep its order: where a sum runs over rows, every column is a chain
// of its own in ascending order, so a call may be cut anywhere without changing bits.
type mixerKernels struct {
	// mix adds weighted rows of a matrix to count rows of o: o[c*os+j] += w[c*ws+i]*m[i*ms+j], in ascending i, for c below
	// count, i below rows and j below cols, a multiple of 32. Scores and sums of attention are both of this kind.
	mix func(o []float32, os int, m []float32, ms int, w []float32, ws int, cols, rows, count int)

	// delta advances up to deltaCols value dims of one head by one token; see deltaStep. s is [len(k), len(v)], kq is k·q.
	delta func(s, k, q, v, o []float32, alpha, beta, kq float32)

	// conv is the causal depthwise convolution of one token with SiLU: dst[c] = silu(sum over j of taps[j*stride+c] *
	// u[j*stride+c]), added in ascending j, the oldest column first.
	conv func(dst, taps, u []float32, stride int)

	dot    func(x, y []float32) float32
	times  func(x []float32, a float32)            // x *= a
	scaled func(dst, x, gain []float32, a float32) // dst = x * a * gain; dst may be x

	gate    func(dst, z []float32)               // dst *= silu(z)
	sigmoid func(dst, x, g []float32, a float32) // dst = x * a * sigmoid(g); dst may be x
	// expSum is x = e^(x - top); it returns the sum. No x is above top.
	expSum func(x []float32, top float32) float32
}

func goMixers() mixerKernels {
	return mixerKernels{
		mix: mixGo, delta: deltaGo, conv: convolve, dot: dotGo, times: scale, scaled: scaledGo,
		gate: gateGo, sigmoid: sigmoidGo, expSum: expSumGo,
	}
}
