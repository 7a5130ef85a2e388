package cpu

import "unsafe"

// The files rows*.go and vector.go are the seam to the machine: all inner loops, and nothing that knows of layers. Row
// kernels work on blocks of 32 columns; rows of activations are padded with zeros to whole blocks, and so are tiles.
//
// The summation order of every dot product: within a group (affine: Matrix.Group columns; else floatGroup; the last one
// may be shorter) even columns are added to one sum and odd ones to another, both in ascending order, then the two are
// added; groups are added in ascending order, affine ones as scale*sum + bias*(sum of the group's activations).

const (
	blockCols  = 32
	floatGroup = 128 // columns per group of a matrix that is not affine
)

type (
	block32 = [blockCols]float32         // activations, or a tile of weights or codes
	block4b = [blockCols / 2]byte        // 4-bit codes
	block8b = [blockCols]byte            // 8-bit codes
	blockHf = [2 * blockCols]byte        // bf16
	quad    struct{ a, b, c, d float32 } // four dot products
)

// padded rounds a number of columns up to whole blocks.
func padded(n int) int { return (n + blockCols - 1) &^ (blockCols - 1) }

// blocks views x as whole blocks; bytes and floats have no alignment beyond their own.
func blocks[B any, E byte | float32](x []E) []B {
	var b B
	var e E
	n := uintptr(len(x)) * unsafe.Sizeof(e) / unsafe.Sizeof(b)
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(x))), n)
}

// dotTile4 is four rows of a tile times one row of activations. All have the same length.
func dotTile4(w0, w1, w2, w3, x []block32) quad {
	var a0, a1, b0, b1, c0, c1, d0, d1 float32
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for g := range x {
		xb := &x[g]
		p0, p1, p2, p3 := &w0[g], &w1[g], &w2[g], &w3[g]
		for i := 0; i <= blockCols-4; i += 4 {
			x0, x1 := xb[i], xb[i+1]
			a0 += float32(p0[i] * x0)
			a1 += float32(p0[i+1] * x1)
			b0 += float32(p1[i] * x0)
			b1 += float32(p1[i+1] * x1)
			c0 += float32(p2[i] * x0)
			c1 += float32(p2[i+1] * x1)
			d0 += float32(p3[i] * x0)
			d1 += float32(p3[i+1] * x1)
			x0, x1 = xb[i+2], xb[i+3]
			a0 += float32(p0[i+2] * x0)
			a1 += float32(p0[i+3] * x1)
			b0 += float32(p1[i+2] * x0)
			b1 += float32(p1[i+3] * x1)
			c0 += float32(p2[i+2] * x0)
			c1 += float32(p2[i+3] * x1)
			d0 += float32(p3[i+2] * x0)
			d1 += float32(p3[i+3] * x1)
		}
	}
	return quad{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
}

// dotNibbles4 is four rows of 4-bit codes times one row of activations.
func dotNibbles4(w0, w1, w2, w3 []block4b, x []block32) quad {
	var a0, a1, b0, b1, c0, c1, d0, d1 float32
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for g := range x {
		xb := &x[g]
		p0, p1, p2, p3 := &w0[g], &w1[g], &w2[g], &w3[g]
		for i := 0; i <= blockCols/2-4; i += 4 {
			x0, x1 := xb[2*i], xb[2*i+1]
			t := p0[i]
			a0 += float32(lowNibble[t] * x0)
			a1 += float32(highNibble[t] * x1)
			t = p1[i]
			b0 += float32(lowNibble[t] * x0)
			b1 += float32(highNibble[t] * x1)
			t = p2[i]
			c0 += float32(lowNibble[t] * x0)
			c1 += float32(highNibble[t] * x1)
			t = p3[i]
			d0 += float32(lowNibble[t] * x0)
			d1 += float32(highNibble[t] * x1)

			x0, x1 = xb[2*i+2], xb[2*i+3]
			t = p0[i+1]
			a0 += float32(lowNibble[t] * x0)
			a1 += float32(highNibble[t] * x1)
			t = p1[i+1]
			b0 += float32(lowNibble[t] * x0)
			b1 += float32(highNibble[t] * x1)
			t = p2[i+1]
			c0 += float32(lowNibble[t] * x0)
			c1 += float32(highNibble[t] * x1)
			t = p3[i+1]
			d0 += float32(lowNibble[t] * x0)
			d1 += float32(highNibble[t] * x1)

			x0, x1 = xb[2*i+4], xb[2*i+5]
			t = p0[i+2]
			a0 += float32(lowNibble[t] * x0)
			a1 += float32(highNibble[t] * x1)
			t = p1[i+2]
			b0 += float32(lowNibble[t] * x0)
			b1 += float32(highNibble[t] * x1)
			t = p2[i+2]
			c0 += float32(lowNibble[t] * x0)
			c1 += float32(highNibble[t] * x1)
			t = p3[i+2]
			d0 += float32(lowNibble[t] * x0)
			d1 += float32(highNibble[t] * x1)

			x0, x1 = xb[2*i+6], xb[2*i+7]
			t = p0[i+3]
			a0 += float32(lowNibble[t] * x0)
			a1 += float32(highNibble[t] * x1)
			t = p1[i+3]
			b0 += float32(lowNibble[t] * x0)
			b1 += float32(highNibble[t] * x1)
			t = p2[i+3]
			c0 += float32(lowNibble[t] * x0)
			c1 += float32(highNibble[t] * x1)
			t = p3[i+3]
			d0 += float32(lowNibble[t] * x0)
			d1 += float32(highNibble[t] * x1)
		}
	}
	return quad{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
}

// dotBytes4 is four rows of 8-bit codes times one row of activations.
func dotBytes4(w0, w1, w2, w3 []block8b, x []block32) quad {
	var a0, a1, b0, b1, c0, c1, d0, d1 float32
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for g := range x {
		xb := &x[g]
		p0, p1, p2, p3 := &w0[g], &w1[g], &w2[g], &w3[g]
		for i := 0; i <= blockCols-4; i += 4 {
			x0, x1 := xb[i], xb[i+1]
			a0 += float32(codeFloat[p0[i]] * x0)
			a1 += float32(codeFloat[p0[i+1]] * x1)
			b0 += float32(codeFloat[p1[i]] * x0)
			b1 += float32(codeFloat[p1[i+1]] * x1)
			c0 += float32(codeFloat[p2[i]] * x0)
			c1 += float32(codeFloat[p2[i+1]] * x1)
			d0 += float32(codeFloat[p3[i]] * x0)
			d1 += float32(codeFloat[p3[i+1]] * x1)
			x0, x1 = xb[i+2], xb[i+3]
			a0 += float32(codeFloat[p0[i+2]] * x0)
			a1 += float32(codeFloat[p0[i+3]] * x1)
			b0 += float32(codeFloat[p1[i+2]] * x0)
			b1 += float32(codeFloat[p1[i+3]] * x1)
			c0 += float32(codeFloat[p2[i+2]] * x0)
			c1 += float32(codeFloat[p2[i+3]] * x1)
			d0 += float32(codeFloat[p3[i+2]] * x0)
			d1 += float32(codeFloat[p3[i+3]] * x1)
		}
	}
	return quad{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
}

// dotHalves4 is four rows of bf16 times one row of activations.
func dotHalves4(w0, w1, w2, w3 []blockHf, x []block32) quad {
	var a0, a1, b0, b1, c0, c1, d0, d1 float32
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for g := range x {
		xb := &x[g]
		p0, p1, p2, p3 := &w0[g], &w1[g], &w2[g], &w3[g]
		for i := 0; i <= blockCols-2; i += 2 {
			x0, x1 := xb[i], xb[i+1]
			l, h := widen2(p0, i)
			a0 += float32(l * x0)
			a1 += float32(h * x1)
			l, h = widen2(p1, i)
			b0 += float32(l * x0)
			b1 += float32(h * x1)
			l, h = widen2(p2, i)
			c0 += float32(l * x0)
			c1 += float32(h * x1)
			l, h = widen2(p3, i)
			d0 += float32(l * x0)
			d1 += float32(h * x1)
		}
	}
	return quad{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
}
