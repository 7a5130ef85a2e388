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
