package cpu

// deltaCols is the number of value dims in one block of a recurrent state: a state is kept as blocks of [KeyDim, deltaCols],
// the last one narrower where ValueDim is no multiple, so that what a loop walks through is one run of memory.
const deltaCols = 64

// deltaStep advances one value head by one token (model specification 2.5, step 6). s is the state in blocks, k and q are
// normalised and q is scaled, v is the head's value, alpha its decay, beta its write strength, kq is k·q; o receives the
// read. With the decayed state αS, the write is d = β(v - k·αS) and the read q·(αS + k⊗d) = α(q·S) + d(k·q), so one pass
// over S gives both sums and a second one writes. Columns (value dims) are independent; their sums run over k in ascending
// order.
func (n *kernels) deltaStep(s, k, q, v, o []float32, alpha, beta, kq float32) {
	for c := 0; c < len(v); c += deltaCols {
		end := min(c+deltaCols, len(v))
		n.delta(s[c*len(k):end*len(k)], k, q, v[c:end], o[c:end], alpha, beta, kq)
	}
}

// deltaGo is mixerKernels.delta: four columns at a time.
func deltaGo(s, k, q, v, o []float32, alpha, beta, kq float32) {
	width, c := len(v), 0
	for ; c+4 <= width; c += 4 {
		deltaColumns4(s[c:], k, q[:len(k)], (*[4]float32)(v[c:]), (*[4]float32)(o[c:]), width, alpha, beta, kq)
	}
	for ; c < width; c++ {
		deltaColumn(s[c:], k, q[:len(k)], &v[c], &o[c], width, alpha, beta, kq)
	}
}

func deltaColumns4(s, k, q []float32, v, o *[4]float32, stride int, alpha, beta, kq float32) {
	var m0, m1, m2, m3, y0, y1, y2, y3 float32
	at := 0
	for j, kj := range k {
		r, qj := (*[4]float32)(s[at:]), q[j]
		m0 += float32(r[0] * kj)
		y0 += float32(r[0] * qj)
		m1 += float32(r[1] * kj)
		y1 += float32(r[1] * qj)
		m2 += float32(r[2] * kj)
		y2 += float32(r[2] * qj)
		m3 += float32(r[3] * kj)
		y3 += float32(r[3] * qj)
		at += stride
	}
	d0, d1 := beta*(v[0]-float32(alpha*m0)), beta*(v[1]-float32(alpha*m1))
	d2, d3 := beta*(v[2]-float32(alpha*m2)), beta*(v[3]-float32(alpha*m3))
	o[0], o[1] = float32(alpha*y0)+float32(d0*kq), float32(alpha*y1)+float32(d1*kq)
	o[2], o[3] = float32(alpha*y2)+float32(d2*kq), float32(alpha*y3)+float32(d3*kq)
	at = 0
	for _, kj := range k {
		r := (*[4]float32)(s[at:])
		r[0] = float32(alpha*r[0]) + float32(kj*d0)
		r[1] = float32(alpha*r[1]) + float32(kj*d1)
		r[2] = float32(alpha*r[2]) + float32(kj*d2)
		r[3] = float32(alpha*r[3]) + float32(kj*d3)
		at += stride
	}
}

func deltaColumn(s, k, q []float32, v, o *float32, stride int, alpha, beta, kq float32) {
	var m, y float32
	for j, kj := range k {
		m += float32(s[j*stride] * kj)
		y += float32(s[j*stride] * q[j])
	}
	d := beta * (*v - float32(alpha*m))
	*o = float32(alpha*y) + float32(d*kq)
	for j, kj := range k {
		s[j*stride] = float32(alpha*s[j*stride]) + float32(kj*d)
	}
}

// convolve is mixerKernels.conv.
func convolve(dst, taps, u []float32, stride int) {
	clear(dst)
	n := len(dst)
	for at := 0; at < len(taps); at += stride {
		t, x := taps[at:at+n], u[at:at+n]
		for c := range dst {
			dst[c] += float32(t[c] * x[c])
		}
	}
	for c, v := range dst {
		dst[c] = silu(v)
	}
}
