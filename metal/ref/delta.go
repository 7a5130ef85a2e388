package ref

import "math"

// Delta is one token of the Gated DeltaNet mixer, up to its output projection.
type Delta struct {
	KeyHeads, ValueHeads, KeyDim, ValueDim, Taps int

	Eps         float32
	QKV         []float32 // [channels]: q and k of all key heads, v of all value heads
	Z           []float32 // [ValueHeads*ValueDim]
	B, A        []float32 // [ValueHeads]
	ConvW       []float32 // [Taps, channels], the current token's tap last
	Decay       []float32 // [ValueHeads]: -exp(A_log)
	DtBias      []float32 // [ValueHeads]
	Gain        []float32 // [ValueDim]
	Conv        []float32 // [Taps-1, channels], oldest first; moved on by Advance
	Recurrent   []float32 // [ValueHeads, ValueDim, KeyDim]; advanced by Advance
	convolution []float32 // [channels] of the token at hand
}

// Advance computes the token: [ValueHeads*ValueDim], not rounded. Sums are taken in fp64.
func (d *Delta) Advance() []float32 {
	d.convolve()
	out := make([]float32, 0, d.ValueHeads*d.ValueDim)
	keys := d.KeyHeads * d.KeyDim
	for h := range d.ValueHeads {
		at := h / (d.ValueHeads / d.KeyHeads) * d.KeyDim
		q := unit(d.convolution[at:at+d.KeyDim], 1/math.Sqrt(float64(d.KeyDim)))
		k := unit(d.convolution[keys+at:keys+at+d.KeyDim], 1)
		v := d.convolution[2*keys+h*d.ValueDim:][:d.ValueDim]
		x := float64(d.A[h] + d.DtBias[h])
		alpha := math.Exp(float64(d.Decay[h]) * (max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))))
		size := d.ValueDim * d.KeyDim
		o := recur(d.Recurrent[h*size:(h+1)*size], q, k, v, alpha, float64(Sigmoid(d.B[h])))
		out = append(out, d.gate(o, d.Z[h*d.ValueDim:])...)
	}
	return out
}

// convolve is the causal depthwise convolution with SiLU, and the move of its window.
func (d *Delta) convolve() {
	n := len(d.QKV)
	window := append(append([]float32{}, d.Conv...), d.QKV...)
	d.convolution = make([]float32, n)
	for c := range n {
		var sum float64
		for j := range d.Taps {
			sum += float64(d.ConvW[j*n+c]) * float64(window[j*n+c])
		}
		d.convolution[c] = SiLU(float32(sum))
	}
	copy(d.Conv, window[n:])
}

// unit is x with an L2 norm of length.
func unit(x []float32, length float64) []float64 {
	sum := 1e-6
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) * length / math.Sqrt(sum)
	}
	return out
}

// recur advances one head's state s, [len(v), len(k)], and reads it with q: decay, write of what k predicts wrongly, read.
func recur(s []float32, q, k []float64, v []float32, alpha, beta float64) []float64 {
	o := make([]float64, len(v))
	for i := range v {
		row := s[i*len(k) : (i+1)*len(k)]
		var predicted float64
		for j := range row {
			row[j] = float32(float64(row[j]) * alpha)
			predicted += float64(row[j]) * k[j]
		}
		delta := beta * (float64(v[i]) - predicted)
		for j := range row {
			row[j] = float32(float64(row[j]) + delta*k[j])
			o[i] += float64(row[j]) * q[j]
		}
	}
	return o
}

// gate is the gated RMS norm of one head.
func (d *Delta) gate(o []float64, z []float32) []float32 {
	var sum float64
	for _, v := range o {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(o))+float64(d.Eps))
	out := make([]float32, len(o))
	for i, v := range o {
		out[i] = float32(v * scale * float64(d.Gain[i]) * float64(SiLU(z[i])))
	}
	return out
}
