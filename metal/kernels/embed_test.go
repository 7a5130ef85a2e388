package kernels_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"lilypad/metal/kernels"
	"lilypad/metal/ref"
)

func TestEmbed(t *testing.T) {
	for _, f := range formats() {
		t.Run(f.String(), func(t *testing.T) {
			b := newBench(t, 1<<20)
			const rows, cols = 9, 640
			m, twin := b.Matrix(f, rows, cols)
			gain := b.Normal(cols, 1, 0.3)
			for _, token := range []uint32{0, 5, rows - 1, rows} {
				r := kernels.Residual{H: b.Room(4 * cols), Gained: b.Room(kernels.VectorBytes(cols)), Squares: b.Room(cols / 2), Gain: b.PutFloats(gain)}
				b.run(b.set.Embed(kernels.Embed{W: m, Step: b.PutUints(token, 3, 0, 0, 0, 0, 0, 0), Residual: r}))
				h := slices.Clone(twin.Row(int(min(token, rows-1))))
				b.floats(fmt.Sprint("h of ", token), r.H, h)
				b.vector("gained", r.Gained, ref.Gained(h, gain))
				b.floats("squares", r.Squares, ref.Squares(h))
			}
		})
	}
}

func TestEmbedRefusesOddColumns(t *testing.T) {
	b := newBench(t, 1<<20)
	m, _ := b.Matrix(kernels.Format{}, 4, 12)
	if _, err := b.set.Embed(kernels.Embed{W: m, Step: b.Room(32)}); err == nil {
		t.Error("12 columns accepted")
	}
}

func TestCopy(t *testing.T) {
	b := newBench(t, 1<<20)
	for _, n := range []int64{4, 16, 60, 4096, 16400, 70004} {
		for _, shift := range []int64{0, 4} {
			src, dst := b.Room(n+16).At(shift), b.Room(n+16)
			for i := range b.Bytes(src, n) {
				b.Bytes(src, n)[i] = byte(b.Rand.Uint32())
			}
			b.run(b.set.Copy(dst, src, n))
			if !bytes.Equal(b.Bytes(dst, n), b.Bytes(src, n)) {
				t.Errorf("%d bytes from offset %d on differ", n, shift)
			}
			if after := b.Uints(dst.At(n), 1)[0]; after != 0xffffffff {
				t.Errorf("%d bytes: %#x written behind them", n, after)
			}
		}
	}
	for _, n := range []int64{0, -4, 6} {
		if _, err := b.set.Copy(b.Room(16), b.Room(16), n); err == nil {
			t.Errorf("%d bytes accepted", n)
		}
	}
}
