package ref

import "math"

// Linear is scale * m x: [m.Rows]. Products are summed in fp64, so that only the kernel's own order of sums differs.
func Linear(m Matrix, x []float32, scale float32) []float32 {
	y := make([]float32, m.Rows)
	for r := range y {
		var sum float64
		for c, w := range m.Row(r) {
			sum += float64(w) * float64(x[c])
		}
		y[r] = float32(sum * float64(scale))
	}
	return y
}

// InverseRMS is 1/sqrt(sum(squares)/size + eps).
func InverseRMS(squares []float32, size int, eps float32) float32 {
	var sum float64
	for _, s := range squares {
		sum += float64(s)
	}
	return float32(1 / math.Sqrt(sum/float64(size)+float64(eps)))
}

// SwiGLU is silu(gate)*up, of y = gates then ups: [len(y)/2].
func SwiGLU(y []float32) []float32 {
	n := len(y) / 2
	out := make([]float32, n)
	for i := range out {
		out[i] = SiLU(y[i]) * y[n+i]
	}
	return out
}

// Gained is h*gain, as producers of the residual leave it for the next norm.
func Gained(h, gain []float32) []float32 {
	out := make([]float32, len(h))
	for i := range h {
		out[i] = h[i] * gain[i]
	}
	return out
}

// Squares is the sums of h*h over 8 elements each: [len(h)/8].
func Squares(h []float32) []float32 {
	out := make([]float32, len(h)/8)
	for i, v := range h {
		out[i/8] += v * v
	}
	return out
}

// Partial is the best logit of a tile.
type Partial struct {
	Logit float32
	ID    uint32 // 0xffffffff where nothing is allowed
}

// Best is, for each tile of logits, the largest allowed one, the lowest id of equals; a NaN that is allowed wins.
func Best(logits []float32, allowed []uint32, tile int) []Partial {
	var out []Partial
	for i, l := range logits {
		if i%tile == 0 {
			out = append(out, Partial{float32(math.Inf(-1)), math.MaxUint32})
		}
		if allowed[i/32]>>(i%32)&1 == 0 {
			continue
		}
		p := &out[len(out)-1]
		held := p.ID != math.MaxUint32
		if p.Logit != p.Logit || held && l <= p.Logit {
			continue
		}
		*p = Partial{l, uint32(i)}
	}
	return out
}
