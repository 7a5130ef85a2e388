package cpu

import "lilypad/worker/checkpoint"

// batch is rows of activations, with what the row kernels want beside them.
type batch struct {
	cols, stride int       // stride is padded(cols)
	x            []float32 // [rows, stride], zeros beyond cols
	sums         []float32 // [rows, stride/32]: sum of each block; nil if nobody wants them
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

// sumRow ends the writing of row t: it clears the padding and fills the block sums, if they are wanted.
func (b *batch) sumRow(t int) {
	clear(b.x[t*b.stride+b.cols : (t+1)*b.stride])
	if b.sums == nil {
		return
	}
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

// tileRows is how many rows of activations it takes to unpack any weights into a tile first.
const tileRows = 4

// mulRowsGo is rowKernels.mulRows in plain Go.
func mulRowsGo(s *scratch, out []float32, w *checkpoint.Matrix, r, n int, x *batch, index []int32, first, m int) {
	if m < tileRows && hasDirect(w) {
		for t := range m {
			s.mulDirect(out[t*outStride(n):], w, r, n, x, rowAt(index, first, t))
		}
		return
	}
	stride := outStride(n)
	for i := 0; i < n; i += 4 {
		rows := fourOf(r, n, i)
		if w.Type == checkpoint.Affine {
			s.loadScales(w, &rows)
		}
		for j, row := range rows {
			unpackRow(s.tile[j*x.stride:(j+1)*x.stride], w, row)
		}
		t := 0
		for ; t+4 <= m; t += 4 {
			var at [4]int
			for j := range at {
				at[j] = rowAt(index, first, t+j)
			}
			s.mulFour(out[t*stride+i:], stride, w, x, &at)
		}
		for ; t < m; t++ {
			s.mulOne(out[t*stride+i:], w, x, rowAt(index, first, t))
		}
	}
}

// fourOf is the rows i to i+3 of [r, r+n); the last one stands in for rows beyond it, whose results nobody reads.
func fourOf(r, n, i int) [4]int {
	return [4]int{r + i, r + min(i+1, n-1), r + min(i+2, n-1), r + min(i+3, n-1)}
}

func rowAt(index []int32, first, t int) int {
	if index == nil {
		return first + t
	}
	return int(index[t])
}

// loadScales converts scales and biases of four rows, which are consecutive but at the end of a run.
func (s *scratch) loadScales(w *checkpoint.Matrix, rows *[4]int) {
	groups, stride := w.Groups(), w.ScaleRowBytes()
	if at := rows[0] * stride; rows[3] == rows[0]+3 {
		widen(s.scale[:4*groups], w.Scales[at:at+4*stride], w.ScaleType)
		widen(s.bias[:4*groups], w.Biases[at:at+4*stride], w.ScaleType)
		return
	}
	for j, row := range rows {
		widen(s.scale[j*groups:(j+1)*groups], w.Scales[row*stride:(row+1)*stride], w.ScaleType)
		widen(s.bias[j*groups:(j+1)*groups], w.Biases[row*stride:(row+1)*stride], w.ScaleType)
	}
}

// loadSums fills sums, one for each group of an affine matrix, with the sum of row t's activations in it.
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

// addGroups adds the groups of four affine rows up: scale*dot + bias*sum in ascending order.
func (s *scratch) addGroups(groups int) quad {
	var y quad
	dots, sums, scale, bias := s.dots[:groups], s.sums[:groups], s.scale[:4*groups], s.bias[:4*groups]
	for g, q := range dots {
		sum := sums[g]
		y.a += float32(scale[g]*q.a) + float32(bias[g]*sum)
		y.b += float32(scale[groups+g]*q.b) + float32(bias[groups+g]*sum)
		y.c += float32(scale[2*groups+g]*q.c) + float32(bias[2*groups+g]*sum)
		y.d += float32(scale[3*groups+g]*q.d) + float32(bias[3*groups+g]*sum)
	}
	return y
}

// mulOne is the four rows of the tile times row t of x.
func (s *scratch) mulOne(out []float32, w *checkpoint.Matrix, x *batch, t int) {
	xb, n := x.blocks(t), x.stride/blockCols
	tile := blocks[block32](s.tile[:4*x.stride])
	w0, w1, w2, w3 := tile[:n], tile[n:2*n], tile[2*n:3*n], tile[3*n:]
	if w.Type != checkpoint.Affine {
		const per = floatGroup / blockCols
		var y quad
		for l := 0; l < n; l += per {
			h := min(l+per, n)
			y.add(dotTile4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h]))
		}
		y.store(out, 1)
		return
	}
	groups, per := w.Groups(), w.Group/blockCols
	loadSums(s.sums[:groups], w, x, t)
	for g := range groups {
		l, h := g*per, (g+1)*per
		s.dots[g] = dotTile4(w0[l:h], w1[l:h], w2[l:h], w3[l:h], xb[l:h])
	}
	s.addGroups(groups).store(out, 1)
}

// mulFour is the four rows of the tile times four rows of activations: out[i*stride+j] is row j times activations i. A product
// doesn't mind which factor is the weight, so dotTile4 serves here with one row of weights and four of activations.
func (s *scratch) mulFour(out []float32, stride int, w *checkpoint.Matrix, x *batch, at *[4]int) {
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
		y.store(out[j:], stride)
	}
}

func (y *quad) add(q quad) {
	y.a += q.a
	y.b += q.b
	y.c += q.c
	y.d += q.d
}

// store writes the four results stride apart.
func (y quad) store(out []float32, stride int) {
	out[0], out[stride], out[2*stride], out[3*stride] = y.a, y.b, y.c, y.d
}
