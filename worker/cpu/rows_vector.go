//go:build amd64 || arm64

package cpu

import "lilypad/worker/checkpoint"

// Row kernels of the vector sets. Weights are dequantised, w = scale*code + bias, and multiplied in fp32. A few rows of
// activations read the weights as they are stored (gemv); for more, four rows of weights at a time are rebuilt as floats
// in a tile that stays in the cache, and all rows of activations pass it. Both add in the same order, which the
// assembly states.

const (
	vectorCols = 16 // columns of a vector in a tile; sets with shorter registers take it in parts
	stripRows  = 32 // rows of weights whose scales are converted at once
)

// format is how a matrix is stored, as far as it has kernels of its own.
type format int

const (
	nibbles format = iota
	bytes8
	bfloats
	halves
	floats
	formats
	otherFormat = formats
)

func formatOf(w *checkpoint.Matrix) format {
	switch {
	case w.Type == checkpoint.Affine && w.Bits == 4:
		return nibbles
	case w.Type == checkpoint.Affine && w.Bits == 8:
		return bytes8
	case w.Cols%vectorCols != 0:
		return otherFormat
	case w.Type == checkpoint.BF16:
		return bfloats
	case w.Type == checkpoint.F16:
		return halves
	case w.Type == checkpoint.F32:
		return floats
	}
	return otherFormat
}

// gemvArgs are consecutive rows of weights times one row of activations. The kernel computes four rows at a time and takes
// the last row where there are no more.
type gemvArgs struct {
	w, last     *byte // first and last row
	stride      int   // bytes of a row
	rows        int   // consumed by the kernel
	x           *float32
	y           *float32 // room for rows, rounded up to 4; consumed
	scale, bias *float32 // [rows rounded up to 4, groups]
	groups      int
	blocks      int // 32 columns each, in a group
}

// unpackArgs are one row of weights and its place in a tile.
type unpackArgs struct {
	w           *byte
	bytes       int // of the row
	scale, bias *float32
	blocks      int      // 32 columns each, in a group
	tile        *float32 // vectors are 4*vectorCols floats apart
}

// tileArgs are a tile of four rows of weights, fp32 [bytes/64][4][vectorCols], times rows of activations.
type tileArgs struct {
	w, x    *float32
	offsets *int // byte at which each row begins in x; the last one is repeated up to a multiple of tileTokens
	rows    int  // of activations
	bytes   int  // of a row of activations, as far as this part of the columns goes
	sums    *float32
	first   int // 1 for the first part of the columns: sums begin at 0 instead of what the part before left in sums
	last    int // 1 for the last part: results go to y
	y       *float32
	stride  int // bytes from the four results of a row of activations to those of the next
}

// tileTokens is a multiple of the rows of activations that any mulTile takes at once.
const tileTokens = 12

// vectorRows are the loops of one instruction set.
type vectorRows struct {
	gemv   [formats]func(*gemvArgs) // nil for formats that the set reads through plain Go
	unpack [formats]func(*unpackArgs)
	mul    func(*tileArgs)
	// widen converts n bf16, whole vectors of 16; dst and src have room for them.
	widen func(dst *float32, src *byte, n int)
	// part is how many columns of a tile and of the rows that it meets stay in the first cache.
	part int
	// tiled is how many rows of activations it takes to rebuild weights first.
	tiled int
}

// vectorScratch is what a thread needs for them.
type vectorScratch struct {
	gemv        gemvArgs
	unpack      unpackArgs
	mul         tileArgs
	offsets     []int
	scale, bias []float32 // [stripRows, groups]
	codes       []float32 // of a row
	tile        []float32 // [4 * padded columns]
	partial     []float32 // [maxRows + tileTokens, 4, vectorCols]: sums of a part of the columns
}

func newVectorScratch(cols int) vectorScratch {
	pairs := stripRows*(cols/blockCols+1) + vectorCols
	return vectorScratch{
		offsets: make([]int, 0, maxRows+tileTokens), scale: make([]float32, pairs), bias: make([]float32, pairs),
		codes: make([]float32, padded(cols)), tile: make([]float32, 4*padded(cols)),
		partial: make([]float32, (maxRows+tileTokens)*4*vectorCols),
	}
}

// rows makes the kernels of a set from its loops.
func (k *vectorRows) rows() rowKernels {
	return rowKernels{mulRows: func(s *scratch, out []float32, w *checkpoint.Matrix, r, n int, x *batch, index []int32, first, m int) {
		f := formatOf(w)
		if f != otherFormat && k.gemv[f] == nil {
			f = otherFormat
		}
		direct := m < k.tiled && f != otherFormat
		if !direct {
			s.vector.locate(x, index, first, m)
		}
		stride := outStride(n)
		for i := 0; i < n; i += stripRows {
			rows := min(stripRows, n-i)
			k.loadScales(&s.vector, w, r+i, rows)
			if direct {
				for t := range m {
					k.mulDirect(s, out[t*stride+i:], w, f, r+i, rows, x, rowAt(index, first, t))
				}
				continue
			}
			for j := 0; j < rows; j += 4 {
				for l := range 4 {
					k.unpackRow(&s.vector, w, f, r+i+min(j+l, rows-1), min(j+l, rows-1), l)
				}
				k.mulTile(&s.vector, out[i+j:], stride, w.Cols, x, m)
			}
		}
	}}
}

// locate fills offsets.
func (v *vectorScratch) locate(x *batch, index []int32, first, m int) {
	v.offsets = v.offsets[:0]
	for t := range m {
		v.offsets = append(v.offsets, rowAt(index, first, t)*x.stride*4)
	}
	for range tileTokens {
		v.offsets = append(v.offsets, v.offsets[m-1])
	}
}

// loadScales converts scales and biases of rows of an affine matrix.
func (k *vectorRows) loadScales(v *vectorScratch, w *checkpoint.Matrix, r, rows int) {
	if w.Type != checkpoint.Affine {
		return
	}
	from, n := r*w.ScaleRowBytes(), rows*w.Groups()
	k.widenAll(v.scale[:n], w.Scales[from:], w.ScaleType)
	k.widenAll(v.bias[:n], w.Biases[from:], w.ScaleType)
}

func (k *vectorRows) widenAll(dst []float32, src []byte, t checkpoint.DType) {
	whole := 0
	if t == checkpoint.BF16 {
		if whole = len(dst) / vectorCols * vectorCols; whole > 0 {
			k.widen(&dst[0], &src[0], whole)
		}
	}
	if whole < len(dst) {
		widen(dst[whole:], src[whole*t.Size():], t)
	}
}

// mulDirect computes rows [r, r+n), at most stripRows, times row t of x.
func (k *vectorRows) mulDirect(s *scratch, out []float32, w *checkpoint.Matrix, f format, r, n int, x *batch, t int) {
	a, stride := &s.vector.gemv, w.RowBytes()
	*a = gemvArgs{
		w: &w.Data[r*stride], last: &w.Data[(r+n-1)*stride], stride: stride, rows: n,
		x: &x.x[t*x.stride], y: &out[0], groups: w.Groups(), blocks: w.Group / blockCols,
		scale: &s.vector.scale[0], bias: &s.vector.bias[0],
	}
	k.gemv[f](a)
}

// unpackRow rebuilds row r of w as row l of the tile; its scales are those of row j of the strip.
func (k *vectorRows) unpackRow(v *vectorScratch, w *checkpoint.Matrix, f format, r, j, l int) {
	groups, stride := w.Groups(), w.RowBytes()
	if f != otherFormat {
		a := &v.unpack
		*a = unpackArgs{
			w: &w.Data[r*stride], bytes: stride, scale: &v.scale[j*groups], bias: &v.bias[j*groups],
			blocks: w.Group / blockCols, tile: &v.tile[l*vectorCols],
		}
		k.unpack[f](a)
		return
	}
	unpackRow(v.codes, w, r)
	for g := range groups {
		scale, bias := v.scale[j*groups+g], v.bias[j*groups+g]
		codes := v.codes[g*w.Group : (g+1)*w.Group]
		for i, c := range codes {
			codes[i] = float32(scale*c) + bias
		}
	}
	for at := 0; at < w.Cols; at += vectorCols {
		copy(v.tile[4*at+l*vectorCols:], v.codes[at:at+vectorCols])
	}
}

// mulTile multiplies the tile by the rows at offsets: results of row t are out[t*stride:][:4].
func (k *vectorRows) mulTile(v *vectorScratch, out []float32, stride, cols int, x *batch, m int) {
	cols = (cols + vectorCols - 1) / vectorCols * vectorCols
	v.mul = tileArgs{offsets: &v.offsets[0], rows: m, sums: &v.partial[0], first: 1, y: &out[0], stride: stride * 4}
	for at := 0; at < cols; at += k.part {
		n := min(k.part, cols-at)
		v.mul.w, v.mul.x, v.mul.bytes = &v.tile[4*at], &x.x[at], n*4
		if at+n == cols {
			v.mul.last = 1
		}
		k.mul(&v.mul)
		v.mul.first = 0
	}
}
