//go:build amd64 || arm64

package cpu

// vectorLoops are mixerKernels in assembly. Pointers are to the first elements of what mixerKernels gives as slices; n is
// the length, and any length will do but where a multiple is named.
type vectorLoops struct {
	mix4   func(o *float32, os int, m *float32, ms int, w *float32, ws, cols, rows int) // four rows of o; cols a multiple of 32
	mix1   func(o, m *float32, ms int, w *float32, cols, rows int)                      // one row of o, with the bits of mix4
	delta  func(s, k, q, v, o *float32, n, stride, cols int, alpha, beta, kq float32)   // cols a multiple of 8; rows of s are stride apart
	conv   func(dst, taps, u *float32, n, stride, taken int)                            // taken is the number of taps
	dot    func(x, y *float32, n int) float32
	scaled func(dst, x, gain *float32, n int, a float32)
	scale  func(x *float32, n int, a float32)
	gate   func(dst, z *float32, n int)
	sigm   func(dst, x, g *float32, n int, a float32)
	expSum func(x *float32, n int, top float32) float32
}

// mixers makes mixerKernels of loops: it checks lengths and does what is left at the ends.
func (l *vectorLoops) mixers() mixerKernels {
	return mixerKernels{
		mix: l.mixRows, delta: l.deltaBlock, conv: l.convolve,
		dot: func(x, y []float32) float32 {
			if len(x) == 0 {
				return 0
			}
			return l.dot(&x[0], &y[:len(x)][0], len(x))
		},
		times: func(x []float32, a float32) {
			if len(x) > 0 {
				l.scale(&x[0], len(x), a)
			}
		},
		scaled: func(dst, x, gain []float32, a float32) {
			if n := len(dst); n > 0 {
				l.scaled(&dst[0], &x[:n][0], &gain[:n][0], n, a)
			}
		},
		gate: func(dst, z []float32) {
			if n := len(dst); n > 0 {
				l.gate(&dst[0], &z[:n][0], n)
			}
		},
		sigmoid: func(dst, x, g []float32, a float32) {
			if n := len(dst); n > 0 {
				l.sigm(&dst[0], &x[:n][0], &g[:n][0], n, a)
			}
		},
		expSum: func(x []float32, top float32) float32 { return l.expSum(&x[0], len(x), top) },
	}
}

func (l *vectorLoops) mixRows(o []float32, os int, m []float32, ms int, w []float32, ws int, cols, rows, count int) {
	if rows == 0 || count == 0 {
		return
	}
	o, m, w = o[:(count-1)*os+cols], m[:(rows-1)*ms+cols], w[:(count-1)*ws+rows]
	c := 0
	for ; c+4 <= count; c += 4 {
		l.mix4(&o[c*os], os, &m[0], ms, &w[c*ws], ws, cols, rows)
	}
	for ; c < count; c++ {
		l.mix1(&o[c*os], &m[0], ms, &w[c*ws], cols, rows)
	}
}

// deltaBlock leaves columns beyond the last eight to plain Go: columns are independent.
func (l *vectorLoops) deltaBlock(s, k, q, v, o []float32, alpha, beta, kq float32) {
	n, width := len(k), len(v)
	s, q, o = s[:n*width], q[:n], o[:width]
	cols := width &^ 7
	if cols > 0 {
		l.delta(&s[0], &k[0], &q[0], &v[0], &o[0], n, width, cols, alpha, beta, kq)
	}
	for c := cols; c < width; c++ {
		deltaColumn(s[c:], k, q, &v[c], &o[c], width, alpha, beta, kq)
	}
}

func (l *vectorLoops) convolve(dst, taps, u []float32, stride int) {
	n, taken := len(dst), (len(taps)+stride-1)/stride
	last := (taken-1)*stride + n
	l.conv(&dst[0], &taps[:last][0], &u[:last][0], n, stride, taken)
}
