package cpu

// deltaStep advances one value head by one token (model specification 2.5, step 6). s is the state, fp32 [len(v), len(k)]
// (value dim, key dim), k and q are normalised and q is scaled, v is the head's value, alpha its decay, beta its write
// strength; o receives the read. Each row of s is independent of the others; its sums run over k in ascending order.
func deltaStep(s, k, q, v, o []float32, alpha, beta float32) {
	n := len(k)
	q = q[:n]
	o = o[:len(v)]
	i := 0
	for ; i+4 <= len(v); i += 4 {
		deltaRows4((*[4]float32)(o[i:]), (*[4]float32)(v[i:]), s[i*n:(i+1)*n], s[(i+1)*n:(i+2)*n], s[(i+2)*n:(i+3)*n], s[(i+3)*n:(i+4)*n], k, q, alpha, beta)
	}
	for ; i < len(v); i++ {
		row := s[i*n : (i+1)*n]
		var m, y float32
		for j, kj := range k {
			row[j] = float32(alpha * row[j])
			m += float32(row[j] * kj)
		}
		d := beta * (v[i] - m)
		for j, kj := range k {
			row[j] += float32(kj * d)
			y += float32(row[j] * q[j])
		}
		o[i] = y
	}
}

func deltaRows4(o, v *[4]float32, s0, s1, s2, s3, k, q []float32, alpha, beta float32) {
	n := len(k)
	s0, s1, s2, s3, q = s0[:n], s1[:n], s2[:n], s3[:n], q[:n]
	var m0, m1, m2, m3 float32
	for j, kj := range k {
		t := float32(alpha * s0[j])
		s0[j] = t
		m0 += float32(t * kj)
		t = float32(alpha * s1[j])
		s1[j] = t
		m1 += float32(t * kj)
		t = float32(alpha * s2[j])
		s2[j] = t
		m2 += float32(t * kj)
		t = float32(alpha * s3[j])
		s3[j] = t
		m3 += float32(t * kj)
	}
	d0, d1, d2, d3 := beta*(v[0]-m0), beta*(v[1]-m1), beta*(v[2]-m2), beta*(v[3]-m3)
	var y0, y1, y2, y3 float32
	for j, kj := range k {
		qj := q[j]
		t := s0[j] + float32(kj*d0)
		s0[j] = t
		y0 += float32(t * qj)
		t = s1[j] + float32(kj*d1)
		s1[j] = t
		y1 += float32(t * qj)
		t = s2[j] + float32(kj*d2)
		s2[j] = t
		y2 += float32(t * qj)
		t = s3[j] + float32(kj*d3)
		s3[j] = t
		y3 += float32(t * qj)
	}
	*o = [4]float32{y0, y1, y2, y3}
}

// convolve is the causal depthwise convolution of one token with SiLU: dst[c] = silu(sum over j of taps[j*stride+c] *
// u[j*stride+c]), added in ascending j, the oldest column first.
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
