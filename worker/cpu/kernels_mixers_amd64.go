package cpu

func avx2Mixers() mixerKernels {
	l := &vectorLoops{
		mix4: mix4AVX2, mix1: mix1AVX2, delta: deltaAVX2, conv: convAVX2, dot: dotAVX2, scaled: scaledAVX2, scale: scaleAVX2,
		gate: gateAVX2, sigm: sigmoidAVX2, expSum: expSumAVX2,
	}
	return l.mixers()
}

// avx512Mixers has wider loops where the time goes to multiply-adds; their bits are those of AVX2.
func avx512Mixers() mixerKernels {
	l := &vectorLoops{
		mix4: mix4AVX512, mix1: mix1AVX2, delta: deltaWide, conv: convAVX2, dot: dotAVX2, scaled: scaledAVX2, scale: scaleAVX2,
		gate: gateAVX2, sigm: sigmoidAVX2, expSum: expSumAVX2,
	}
	return l.mixers()
}

func deltaWide(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32) {
	if cols == deltaCols {
		deltaAVX512(s, k, q, v, o, n, stride, cols, alpha, beta, kq)
		return
	}
	deltaAVX2(s, k, q, v, o, n, stride, cols, alpha, beta, kq)
}

//go:noescape
func mix4AVX2(o *float32, os int, m *float32, ms int, w *float32, ws, cols, rows int)

//go:noescape
func mix4AVX512(o *float32, os int, m *float32, ms int, w *float32, ws, cols, rows int)

//go:noescape
func mix1AVX2(o, m *float32, ms int, w *float32, cols, rows int)

//go:noescape
func deltaAVX2(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32)

//go:noescape
func deltaAVX512(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32)

//go:noescape
func convAVX2(dst, taps, u *float32, n, stride, taken int)

//go:noescape
func dotAVX2(x, y *float32, n int) float32

//go:noescape
func scaledAVX2(dst, x, gain *float32, n int, a float32)

//go:noescape
func scaleAVX2(x *float32, n int, a float32)

//go:noescape
func gateAVX2(dst, z *float32, n int)

//go:noescape
func sigmoidAVX2(dst, x, gate *float32, n int, a float32)

//go:noescape
func expSumAVX2(x *float32, n int, top float32) float32

// The tables of the assembly, one vector of eight floats for each constant, in the order that it names them: limits of the
// argument, log2(e), ln(2) in two parts, the first exact in products with n, and 1/n! from 7 down.
//
//lint:ignore U1000 vector_amd64.s reads it
var expTable = [...][8]float32{
	all(-87), all(88), all(log2e), all(0.693359375), all(-2.12194440e-4),
	all(1. / 5040), all(1. / 720), all(1. / 120), all(1. / 24), all(1. / 6), all(0.5), all(1),
}

// tailMask has its first n lanes set from element 8-n on.
//
//lint:ignore U1000 vector_amd64.s reads it
var tailMask = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

func all(x float32) [8]float32 { return [8]float32{x, x, x, x, x, x, x, x} }
