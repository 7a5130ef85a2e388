package cpu

import (
	"math"
	"slices"
)

// mixGo is mixerKernels.mix.
func mixGo(o []float32, os int, m []float32, ms int, w []float32, ws int, cols, rows, count int) {
	for c := range count {
		y, a, i := o[c*os:][:cols], w[c*ws:][:rows], 0
		for ; i+4 <= rows; i += 4 {
			addScaled4(y, m[i*ms:][:cols], m[(i+1)*ms:][:cols], m[(i+2)*ms:][:cols], m[(i+3)*ms:][:cols], a[i], a[i+1], a[i+2], a[i+3])
		}
		for ; i < rows; i++ {
			addScaled(y, m[i*ms:][:cols], a[i])
		}
	}
}

// addScaled is y += a*x.
func addScaled(y, x []float32, a float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += float32(a * x[i])
	}
}

// addScaled4 is addScaled four times in order, with the same bits.
func addScaled4(y, x0, x1, x2, x3 []float32, a0, a1, a2, a3 float32) {
	x0, x1, x2, x3 = x0[:len(y)], x1[:len(y)], x2[:len(y)], x3[:len(y)]
	for i := range y {
		y[i] = (((y[i] + float32(a0*x0[i])) + float32(a1*x1[i])) + float32(a2*x2[i])) + float32(a3*x3[i])
	}
}

// scale is y *= a.
func scale(y []float32, a float32) {
	for i := range y {
		y[i] *= a
	}
}

// dotGo is mixerKernels.dot, in four sums by index modulo 4.
func dotGo(x, y []float32) float32 {
	var a, b, c, d float32
	y = y[:len(x)]
	for len(x) >= 4 {
		p, q := (*[4]float32)(x), (*[4]float32)(y)
		a += float32(p[0] * q[0])
		b += float32(p[1] * q[1])
		c += float32(p[2] * q[2])
		d += float32(p[3] * q[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += float32(v * y[i])
	}
	return (a + b) + (c + d)
}

// scaledGo is mixerKernels.scaled.
func scaledGo(dst, x, gain []float32, a float32) {
	x, gain = x[:len(dst)], gain[:len(dst)]
	for i, v := range x {
		dst[i] = v * a * gain[i]
	}
}

// rmsNorm is dst = x / sqrt(mean(x²) + eps) * gain. dst may be x.
func (n *kernels) rmsNorm(dst, x, gain []float32, eps float32) {
	n.scaled(dst[:len(x)], x, gain, inverseRoot(n.dot(x, x)/float32(len(x))+eps))
}

func inverseRoot(x float32) float32 { return float32(1 / math.Sqrt(float64(x))) }

// Constants of exp: log2(e), and the Taylor coefficients ln(2)^n/n! of 2^f.
const (
	log2e = 1.44269504088896340736
	exp1  = 0.693147180559945309417
	exp2  = 0.240226506959100712333
	exp3  = 0.0555041086648215799532
	exp4  = 0.00961812910762847716198
	exp5  = 0.00133335581464284434234
	exp6  = 0.000154035303933816099544
	exp7  = 0.0000152527338040598402800
	// roundBias moves a float64 to where its unit is 1, so that adding it rounds to the nearest integer, ties to even.
	roundBias = 3 << 51
)

// exp is e^x: 2^(n+f) with |f| <= 1/2 in float64, a polynomial of degree 7 with relative error below 6e-9 for 2^f, and one
// rounding to float32: within 0.6 units of the last place. Below -103.98 it is 0, above 88.73 +Inf; NaN stays NaN.
func exp(x float32) float32 {
	if !(x > -104) {
		if x != x {
			return x
		}
		return 0
	}
	if x > 89 {
		return float32(math.Inf(1))
	}
	t := float64(x) * log2e
	n := (t + roundBias) - roundBias
	f := t - n
	p := float64(exp7*f) + exp6
	p = float64(p*f) + exp5
	p = float64(p*f) + exp4
	p = float64(p*f) + exp3
	p = float64(p*f) + exp2
	p = float64(p*f) + exp1
	p = float64(p*f) + 1
	return float32(p * math.Float64frombits(uint64(int64(n)+1023)<<52))
}

// sigmoid is 1 / (1 + e^-x).
func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

// silu is x * sigmoid(x).
func silu(x float32) float32 { return x / (1 + exp(-x)) }

// softplus is log(1 + e^x) without overflow, and x itself above 20 as in PyTorch.
func softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	return max(x, 0) + float32(math.Log1p(float64(exp(-max(x, -x)))))
}

// gateGo is mixerKernels.gate.
func gateGo(dst, z []float32) {
	for i, v := range z[:len(dst)] {
		dst[i] *= silu(v)
	}
}

// sigmoidGo is mixerKernels.sigmoid.
func sigmoidGo(dst, x, g []float32, a float32) {
	x = x[:len(dst)]
	for i, v := range g[:len(dst)] {
		dst[i] = x[i] * a * sigmoid(v)
	}
}

// expSumGo is mixerKernels.expSum; it adds in ascending order.
func expSumGo(x []float32, top float32) float32 {
	var sum float32
	for i, v := range x {
		x[i] = exp(v - top)
		sum += x[i]
	}
	return sum
}

// softmax turns x into probabilities.
func (n *kernels) softmax(x []float32) { n.times(x, 1/n.expShifted(x)) }

// expShifted is x = e^(x - max(x)); it returns the sum.
func (n *kernels) expShifted(x []float32) float32 { return n.expSum(x, slices.Max(x)) }
