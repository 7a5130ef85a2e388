package ref

// Rounded is m with weights rounded to f16, as prefill rebuilds them for f16 vectors.
func (m Matrix) Rounded() Matrix {
	data := make([]float32, len(m.Data))
	for i, w := range m.Data {
		data[i] = RoundHalf(w)
	}
	return Matrix{m.Rows, m.Cols, data}
}

// LinearRows is m x for every row of x, [n, m.Cols]: [n, m.Rows].
func LinearRows(m Matrix, x []float32) []float32 {
	var out []float32
	for i := 0; i < len(x); i += m.Cols {
		out = append(out, Linear(m, x[i:i+m.Cols], 1)...)
	}
	return out
}

// SwiGLURows is SwiGLU of every row of y, [n, width].
func SwiGLURows(y []float32, width int) []float32 {
	var out []float32
	for i := 0; i < len(y); i += width {
		out = append(out, SwiGLU(y[i:i+width])...)
	}
	return out
}
