package cpu

import "lilypad/worker/checkpoint"

// batch is rows of activations, with what the row kernels want beside them.
type batch struct {
	cols, stride int       // stride is padded(cols)
	x            []float32 // [rows, stride], zeros beyond cols
	sums         []float32 // [rows, stride/32]: sum of each block
}

func newBatch(rows, cols int) batch {
	stride := padded(cols)
	return batch{cols: cols, stride: stride, x: make([]float32, rows*stride), sums: make([]float32, rows*stride/blockCols)}
}

// row is row t without its padding.
func (b *batch) row(t int) []float32 { return b.x[t*b.stride:][:b.cols] }

func (b *batch) blocks(t int) []block32 { return blocks[block32](b.x[t*b.stride : (t+1)*b.stride]) }

func (b *batch) blockSums(t int) []float32 {
	n := b.stride / blockCols
	return b.sums[t*n : (t+1)*n]
}

// shape changes the number of columns, at most what the batch was made for. Rows are then to be written anew.
func (b *batch) shape(cols int) { b.cols, b.stride = cols, padded(cols) }

// sumRow ends the writing of row t: it clears the padding and fills the block sums, which affine matrices want.
func (b *batch) sumRow(t int) {
	clear(b.x[t*b.stride+b.cols : (t+1)*b.stride])
	sums := b.blockSums(t)
	for i, x := range b.blocks(t) {
		var a, c, d, e float32
		for j := 0; j < blockCols; j += 4 {
			a += x[j]
			c += x[j+1]
			d += x[j+2]
			e += x[j+3]
		}
		sums[i] = (a + c) + (d + e)
	}
}

// scratch is one thread's memory.
type scratch struct {
	tile        []float32 // [4, padded columns of the widest matrix]
	scale, bias []float32 // [4, groups]
	sums        []float32 // [4, groups]: sums of activations
	dots        []quad    // [groups]
	out, out2   []float32 // results of mulRows
	scores      []float32 // [4, tokens]: attention
	q, k, v     []float32 // one head each: DeltaNet
}

// tileRows is how many rows of activations it takes to unpack any weights into a tile first.
const tileRows = 4

// mulRows computes rows [r, r+n) of w times m rows of activations: out[i*m+t] = w[r+i]·x[index[t]], or x[first+t] where
// index is nil. out has room for n rounded up to 4 rows.
func (s *scratch) mulRows(out []float32, w *checkpoint.Matrix, r, n int, x *batch, index []int32, first, m int) {
	direct := m < tileRows && hasDirect(w)
	for i := 0; i < n; i += 4 {
		var rows [4]int // the last row stands in for rows that aren't wanted
		for j := range rows {
			rows[j] = r + min(i+j, n-1)
		}
		if w.Type == checkpoint.Affine {
			s.loadScales(w, &rows)
		}
		if !direct {
			for j, row := range rows {
				unpackRow(s.tile[j*x.stride:(j+1)*x.stride], w, row)
			}
		}
		o, t := out[i*m:(i+4)*m], 0
		for ; !direct && t+4 <= m; t += 4 {
			var at [4]int
			for j := range at {
				at[j] = rowAt(index, first, t+j)
			}
			s.mulFour(o[t:], m, w, x, &at)
		}
		for ; t < m; t++ {
			y := s.mulOne(w, &rows, direct, x, rowAt(index, first, t))
			o[t], o[m+t], o[2*m+t], o[3*m+t] = y.a, y.b, y.c, y.d
		}
	}
}

func rowAt(index []int32, first, t int) int {
	if index == nil {
		return first + t
	}
	return int(index[t])
}

// loadScales converts scales and biases of four rows.
func (s *scratch) loadScales(w *checkpoint.Matrix, rows *[4]int) {
	groups, stride := w.Groups(), w.ScaleRowBytes()
	for j, row := range rows {
		widen(s.scale[j*groups:(j+1)*groups], w.Scales[row*stride:(row+1)*stride], w.ScaleType)
		widen(s.bias[j*groups:(j+1)*groups], w.Biases[row*stride:(row+1)*stride], w.ScaleType)
	}
}

// loadSums fills sums[:groups] with the sum of activations in each group of an affine matrix.
func loadSums(sums []float32, w *checkpoint.Matrix, x *batch, t int) {
	per, blockSums := w.Group/blockCols, x.blockSums(t)
	for g := range sums {
		var sum float32
		for _, b := range blockSums[g*per : (g+1)*per] {
			sum += b
		}
		sums[g] = sum
	}
}

// mulOne is four rows of weights times one row of activations.
func (s *scratch) mulOne(w *checkpoint.Matrix, rows *[4]int, direct bool, x *batch, t int) quad {
	xb := x.blocks(t)
	if w.Type != checkpoint.Affine {
		return s.mulOneFloat(w, rows, direct, xb, x.stride)
	}
	groups, per := w.Groups(), w.Group/blockCols
	sums := s.sums[:groups]
	loadSums(sums, w, x, t)
	dots := s.dots[:groups]
	switch {
	case direct && w.Bits == 4:
		w0, w1, w2, w3 := fourRows[block4b](w, rows)
		for g := range sums {
			l, h := g*per, (g+1)*per
			dots[g] = dotNibbles4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
		}
	case direct:
		w0, w1, w2, w3 := fourRows[block8b](w, rows)
		for g := range sums {
			l, h := g*per, (g+1)*per
			dots[g] = dotBytes4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
		}
	default:
		w0, w1, w2, w3 := s.tileOf(x.stride)
		for g := range sums {
			l, h := g*per, (g+1)*per
			dots[g] = dotTile4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
		}
	}
	var y quad
	scale, bias := s.scale[:4*groups], s.bias[:4*groups]
	for g, q := range dots {
		sum := sums[g]
		y.a += float32(scale[g]*q.a) + float32(bias[g]*sum)
		y.b += float32(scale[groups+g]*q.b) + float32(bias[groups+g]*sum)
		y.c += float32(scale[2*groups+g]*q.c) + float32(bias[2*groups+g]*sum)
		y.d += float32(scale[3*groups+g]*q.d) + float32(bias[3*groups+g]*sum)
	}
	return y
}

// mulOneFloat is mulOne for stored floats.
func (s *scratch) mulOneFloat(w *checkpoint.Matrix, rows *[4]int, direct bool, xb []block32, stride int) quad {
	const per = floatGroup / blockCols
	var y quad
	if direct {
		w0, w1, w2, w3 := fourRows[blockHf](w, rows)
		for l := 0; l < len(xb); l += per {
			h := min(l+per, len(xb))
			y.add(dotHalves4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h]))
		}
		return y
	}
	w0, w1, w2, w3 := s.tileOf(stride)
	for l := 0; l < len(xb); l += per {
		h := min(l+per, len(xb))
		y.add(dotTile4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h]))
	}
	return y
}

// mulFour is the four rows of the tile times four rows of activations: out[j*m+i] is row j times activations i. A product
// doesn't mind which factor is the weight, so dotTile4 serves here with one row of weights and four of activations.
func (s *scratch) mulFour(out []float32, m int, w *checkpoint.Matrix, x *batch, at *[4]int) {
	x0, x1, x2, x3 := x.blocks(at[0]), x.blocks(at[1]), x.blocks(at[2]), x.blocks(at[3])
	groups, per := w.Groups(), floatGroup/blockCols
	if groups > 0 {
		per = w.Group / blockCols
		for i := range at {
			loadSums(s.sums[i*groups:(i+1)*groups], w, x, at[i])
		}
	}
	for j := range 4 {
		tile := blocks[block32](s.tile[j*x.stride : (j+1)*x.stride])
		var y quad
		for l, g := 0, 0; l < len(tile); l, g = l+per, g+1 {
			h := min(l+per, len(tile))
			q := dotTile4(x0[l:h], x1[l:h], x2[l:h], x3[l:h], tile[l:h])
			if groups == 0 {
				y.add(q)
				continue
			}
			scale, bias, sums := s.scale[j*groups+g], s.bias[j*groups+g], s.sums
			y.a += float32(scale*q.a) + float32(bias*sums[g])
			y.b += float32(scale*q.b) + float32(bias*sums[groups+g])
			y.c += float32(scale*q.c) + float32(bias*sums[2*groups+g])
			y.d += float32(scale*q.d) + float32(bias*sums[3*groups+g])
		}
		o := out[j*m : j*m+4]
		o[0], o[1], o[2], o[3] = y.a, y.b, y.c, y.d
	}
}

func (y *quad) add(q quad) {
	y.a += q.a
	y.b += q.b
	y.c += q.c
	y.d += q.d
}

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

// fourRows views four stored rows as blocks.
func fourRows[B any](w *checkpoint.Matrix, rows *[4]int) (w0, w1, w2, w3 []B) {
	n := w.RowBytes()
	row := func(r int) []B { return blocks[B](w.Data[r*n : (r+1)*n]) }
	return row(rows[0]), row(rows[1]), row(rows[2]), row(rows[3])
}

// tileOf views the four rows of the tile as blocks.
func (s *scratch) tileOf(stride int) (w0, w1, w2, w3 []block32) {
	row := func(j int) []block32 { return blocks[block32](s.tile[j*stride : (j+1)*stride]) }
	return row(0), row(1), row(2), row(3)
}
