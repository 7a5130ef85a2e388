package cpu

import "lilypad/worker/checkpoint"

// hasDirect says that a kernel reads w as it is stored.
func hasDirect(w *checkpoint.Matrix) bool {
	switch w.Type {
	case checkpoint.Affine:
		return w.Bits == 4 || w.Bits == 8
	case checkpoint.BF16:
		return w.Cols%blockCols == 0
	}
	return false
}

// mulDirect computes rows [r, r+n) of w times row t of x, reading w as it is stored.
func (s *scratch) mulDirect(out []float32, w *checkpoint.Matrix, r, n int, x *batch, t int) {
	xb := x.blocks(t)
	switch {
	case w.Type == checkpoint.BF16:
		mulHalves(out, w, r, n, xb)
	case w.Bits == 4:
		s.mulNibbles(out, w, r, n, x, t)
	default:
		s.mulBytes(out, w, r, n, x, t)
	}
}

func (s *scratch) mulNibbles(out []float32, w *checkpoint.Matrix, r, n int, x *batch, t int) {
	data, xb := blocks[block4b](w.Data), x.blocks(t)
	groups, per := w.Groups(), w.Group/blockCols
	loadSums(s.sums[:groups], w, x, t)
	for i := 0; i < n; i += 4 {
		rows := fourOf(r, n, i)
		s.loadScales(w, &rows)
		w0, w1, w2, w3 := fourRows(data, &rows, len(xb))
		for g := range s.dots[:groups] {
			l, h := g*per, (g+1)*per
			s.dots[g] = dotNibbles4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
		}
		s.addGroups(groups).store(out[i:], 1)
	}
}

func (s *scratch) mulBytes(out []float32, w *checkpoint.Matrix, r, n int, x *batch, t int) {
	data, xb := blocks[block8b](w.Data), x.blocks(t)
	groups, per := w.Groups(), w.Group/blockCols
	loadSums(s.sums[:groups], w, x, t)
	for i := 0; i < n; i += 4 {
		rows := fourOf(r, n, i)
		s.loadScales(w, &rows)
		w0, w1, w2, w3 := fourRows(data, &rows, len(xb))
		for g := range s.dots[:groups] {
			l, h := g*per, (g+1)*per
			s.dots[g] = dotBytes4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
		}
		s.addGroups(groups).store(out[i:], 1)
	}
}

func mulHalves(out []float32, w *checkpoint.Matrix, r, n int, xb []block32) {
	const per = floatGroup / blockCols
	data := blocks[blockHf](w.Data)
	for i := 0; i < n; i += 4 {
		rows := fourOf(r, n, i)
		w0, w1, w2, w3 := fourRows(data, &rows, len(xb))
		var y quad
		for l := 0; l < len(xb); l += per {
			h := min(l+per, len(xb))
			y.add(dotHalves4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h]))
		}
		y.store(out[i:], 1)
	}
}

// fourRows picks four rows of n blocks.
func fourRows[B any](data []B, rows *[4]int, n int) (w0, w1, w2, w3 []B) {
	return data[rows[0]*n:][:n], data[rows[1]*n:][:n], data[rows[2]*n:][:n], data[rows[3]*n:][:n]
}
