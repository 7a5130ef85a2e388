package ref

import "math"

// Rope turns x, one head, at a position: dim i with dim i+rotary/2, by position * theta^(-2i/rotary).
func Rope(x []float32, rotary int, theta float64, position int) {
	half := rotary / 2
	for i := range half {
		sin, cos := math.Sincos(float64(position) * math.Pow(theta, -2*float64(i)/float64(rotary)))
		a, b := float64(x[i]), float64(x[i+half])
		x[i], x[i+half] = float32(a*cos-b*sin), float32(b*cos+a*sin)
	}
}

// RMSNorm is x/rms(x) * gain.
func RMSNorm(x, gain []float32, eps float32) []float32 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) * scale * float64(gain[i]))
	}
	return out
}

// Head prepares a query or key head for attention: norm, RoPE and, for queries, scale; not rounded.
func Head(x, gain []float32, eps float32, rotary int, theta float64, position int, scale float64) []float32 {
	y := RMSNorm(x, gain, eps)
	Rope(y, rotary, theta, position)
	for i, v := range y {
		y[i] = float32(float64(v) * scale)
	}
	return y
}

// Attend is softmax(q k) v of one query head, scaled already, times sigmoid(gate); not rounded. keys and values give the
// rows of token t of the length tokens.
func Attend(q, gate []float32, length int, keys, values func(t int) []float32) []float32 {
	scores := make([]float64, length)
	top := math.Inf(-1)
	for t := range scores {
		for i, k := range keys(t) {
			scores[t] += float64(q[i]) * float64(k)
		}
		top = max(top, scores[t])
	}
	sums, total := make([]float64, len(q)), 0.0
	for t, s := range scores {
		w := math.Exp(s - top)
		total += w
		for i, v := range values(t) {
			sums[i] += w * float64(v)
		}
	}
	out := make([]float32, len(q))
	for i, s := range sums {
		out[i] = float32(s / total * float64(Sigmoid(gate[i])))
	}
	return out
}
