package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// keyAt copies the key of one position out of the cache, and valueAt is the value there, both with their padding.
func keyAt(s *sequence, layer, head, pos int) []float32 {
	keys, k := s.m.keys(s.blocks[pos/blockTokens], layer, head), make([]float32, s.m.headStride)
	for d := range k {
		k[d] = keys[d*blockTokens+pos%blockTokens]
	}
	return k
}

func valueAt(s *sequence, layer, head, pos int) []float32 {
	return s.m.values(s.blocks[pos/blockTokens], layer, head)[pos%blockTokens*s.m.headStride:][:s.m.headStride]
}

// The tests below run each kernel of each set beside its twin in plain Go, over every length up to some and at every
// alignment; what lies around the results must stay as it was.

const guard = 77777

// guarded is some floats, x, in the middle of an array with guards on both sides.
type guarded struct {
	all, x []float32
	off    int
}

func newGuarded(r *rand.Rand, n, off int, deviation float64) guarded {
	g := guarded{all: slices.Repeat([]float32{guard}, off+n+9), off: off}
	g.x = g.all[off : off+n : off+n]
	for i := range g.x {
		g.x[i] = float32(r.NormFloat64() * deviation)
	}
	return g
}

func (g guarded) clone() guarded {
	all := slices.Clone(g.all)
	return guarded{all: all, x: all[g.off:][:len(g.x):len(g.x)], off: g.off}
}

func (g guarded) check(t *testing.T, what string) {
	t.Helper()
	n := 0
	for _, v := range g.all {
		if v == guard {
			n++
		}
	}
	if n != len(g.all)-len(g.x) {
		t.Fatalf("%s: wrote beyond its result", what)
	}
}

// same compares with the twin: within relative of the size that each result is a sum of.
func same(t *testing.T, what string, got, want []float32, relative, size float64) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - float64(w)); !(d <= relative*max(size, math.Abs(float64(w)))) {
			t.Fatalf("%s: element %d of %d is %g, plain Go's %g", what, i, len(want), got[i], w)
		}
	}
}

func eachVectorSet(t *testing.T, f func(t *testing.T, n, plain *kernels, r *rand.Rand)) {
	sets := kernelSets()
	plain := sets[len(sets)-1]
	for _, n := range sets {
		t.Run(n.name, func(t *testing.T) { f(t, n, plain, rand.New(rand.NewPCG(1, 2))) })
	}
}

func TestElementwiseKernels(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, plain *kernels, r *rand.Rand) {
		for length := 1; length <= 70; length++ {
			for off := range 8 {
				what := fmt.Sprintf("length %d at %d", length, off)
				a, b, x, z := newGuarded(r, length, off, 1), guarded{}, newGuarded(r, length, (off+3)%8, 1), newGuarded(r, length, (off+5)%8, 6)
				b = a.clone()
				n.gate(a.x, z.x)
				plain.gate(b.x, z.x)
				same(t, "gate, "+what, a.x, b.x, 4e-7, 0)
				n.sigmoid(a.x, x.x, z.x, 0.7)
				plain.sigmoid(b.x, x.x, z.x, 0.7)
				same(t, "sigmoid, "+what, a.x, b.x, 4e-7, 0)
				n.scaled(a.x, x.x, z.x, 1.3)
				plain.scaled(b.x, x.x, z.x, 1.3)
				same(t, "scaled, "+what, a.x, b.x, 0, 0)
				n.times(a.x, 0.3)
				plain.times(b.x, 0.3)
				same(t, "times, "+what, a.x, b.x, 0, 0)
				sums := []float32{n.dot(x.x, z.x), n.expSum(a.x, 3)}
				same(t, "dot and sum, "+what, sums, []float32{plain.dot(x.x, z.x), plain.expSum(b.x, 3)}, 1e-6, 2*float64(length))
				same(t, "expSum, "+what, a.x, b.x, 2e-7, 0)
				a.check(t, what)
			}
		}
		if n.dot(nil, nil) != 0 {
			t.Error("the dot product of nothing isn't 0")
		}
	})
}

// TestVectorExp goes through the whole range of arguments against float64.
func TestVectorExp(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, _ *kernels, _ *rand.Rand) {
		var x []float32
		for v := float32(-87); v <= 0; v += 0.000731 {
			x = append(x, v)
		}
		got, worst := slices.Clone(x), 0.0
		n.expSum(got, 0)
		for i, v := range x {
			want := math.Exp(float64(v))
			worst = max(worst, math.Abs(float64(got[i])-want)/want)
		}
		if worst > 1.5e-7 {
			t.Errorf("relative error %.3g, want at most 1.5e-7", worst)
		}
		t.Logf("relative error at most %.3g", worst)
		infinite := float32(math.Inf(1))
		nan := float32(math.NaN())
		y := []float32{nan, -infinite, -1e30, -200, 0}
		n.expSum(y, 0)
		if y[0] == y[0] || y[4] != 1 || slices.ContainsFunc(y[1:4], func(v float32) bool { return !(v >= 0 && v < 2e-38) }) {
			t.Errorf("e to the power of NaN, -Inf, -1e30, -200, 0 is %v", y)
		}
		gates := []float32{1, 1, 1, 1, 1}
		n.gate(gates, []float32{nan, 1e30, -1e30, 100, -100})
		if gates[0] == gates[0] || gates[1] != 1e30 || math.Abs(float64(gates[2])) > 1e-7 || gates[3] != 100 || math.Abs(float64(gates[4])) > 1e-35 {
			t.Errorf("silu of NaN, 1e30, -1e30, 100, -100 is %v", gates)
		}
	})
}

func TestMix(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, plain *kernels, r *rand.Rand) {
		for _, cols := range []int{32, 64, 96, 128, 160, 256} {
			for count := 1; count <= 9; count++ {
				for _, rows := range []int{0, 1, 2, 3, 7, 64} {
					what := fmt.Sprintf("%d rows of %d columns for %d", rows, cols, count)
					const os, ms, ws = 291, 293, 70
					a := newGuarded(r, count*os, count, 1)
					b := a.clone()
					m, w := newGuarded(r, 64*ms, rows%8, 1), newGuarded(r, count*ws, 1, 1)
					n.mix(a.x, os, m.x, ms, w.x, ws, cols, rows, count)
					plain.mix(b.x, os, m.x, ms, w.x, ws, cols, rows, count)
					same(t, what, a.x, b.x, 1e-6, 1+float64(rows)) // also what lies between the rows of o
					a.check(t, what)
					for c := range count { // a row's bits don't depend on its company, nor on cuts
						alone := newGuarded(r, cols, c, 0)
						before := b.clone()
						copy(alone.x, before.x[c*os:])
						if rows == 0 {
							continue
						}
						clear(alone.x)
						clear(before.x)
						n.mix(before.x, os, m.x, ms, w.x, ws, cols, rows, count)
						cut := rows / 3
						n.mix(alone.x, 0, m.x, ms, w.x[c*ws:], 0, cols, cut, 1)
						n.mix(alone.x, 0, m.x[cut*ms:], ms, w.x[c*ws+cut:], 0, cols, rows-cut, 1)
						if !slices.Equal(alone.x, before.x[c*os:][:cols]) {
							t.Fatalf("%s: row %d alone has other bits", what, c)
						}
					}
				}
			}
		}
	})
}

func TestDeltaStep(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, plain *kernels, r *rand.Rand) {
		for _, keys := range []int{1, 4, 20, 64, 128} {
			for _, values := range []int{1, 5, 8, 27, 31, 32, 40, 63, 64, 65, 71, 128, 130} {
				what := fmt.Sprintf("%d key dims, %d value dims", keys, values)
				k, q, v := newGuarded(r, keys, 1, 1), newGuarded(r, keys, 2, 1), newGuarded(r, values, 3, 1)
				plain.times(k.x, inverseRoot(plain.dot(k.x, k.x)+l2Eps))
				plain.times(q.x, inverseRoot(plain.dot(q.x, q.x)+l2Eps))
				a, y := newGuarded(r, keys*values, 5, 0.3), newGuarded(r, values, 7, 0)
				b, z := a.clone(), y.clone()
				for step := range 3 { // so that a wrong state would show in the reads
					alpha, beta := float32(1-0.1*float64(step)), float32(0.3+0.2*float64(step))
					kq := plain.dot(k.x, q.x)
					n.deltaStep(a.x, k.x, q.x, v.x, y.x, alpha, beta, kq)
					plain.deltaStep(b.x, k.x, q.x, v.x, z.x, alpha, beta, kq)
					same(t, "state, "+what, a.x, b.x, 2e-6, 1)
					same(t, "read, "+what, y.x, z.x, 2e-6, 1)
				}
				a.check(t, what)
				y.check(t, what)
			}
		}
	})
}

// TestDeltaStepByDefinition compares with step 6 of the model specification, 2.5, in float64.
func TestDeltaStepByDefinition(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, _ *kernels, r *rand.Rand) {
		const keys, values, alpha, beta = 16, 96, 0.9, 0.6
		k, q, v := newGuarded(r, keys, 0, 0.25).x, newGuarded(r, keys, 0, 0.25).x, newGuarded(r, values, 0, 1).x
		s, o := newGuarded(r, keys*values, 0, 1).x, make([]float32, values)
		at := func(i, j int) int { // of key dim i and value dim j
			first := j / deltaCols * deltaCols
			return first*keys + i*min(deltaCols, values-first) + j - first
		}
		before := slices.Clone(s)
		n.deltaStep(s, k, q, v, o, alpha, beta, n.dot(k, q))
		for j := range values {
			var m, y float64
			for i := range keys {
				m += alpha * float64(before[at(i, j)]) * float64(k[i])
			}
			d := beta * (float64(v[j]) - m)
			for i := range keys {
				want := alpha*float64(before[at(i, j)]) + float64(k[i])*d
				y += want * float64(q[i])
				if got := float64(s[at(i, j)]); math.Abs(got-want) > 2e-6 {
					t.Fatalf("state of key dim %d, value dim %d is %g, want %g", i, j, got, want)
				}
			}
			if math.Abs(float64(o[j])-y) > 2e-6 {
				t.Fatalf("read %d is %g, want %g", j, o[j], y)
			}
		}
	})
}

func TestConvolve(t *testing.T) {
	eachVectorSet(t, func(t *testing.T, n, plain *kernels, r *rand.Rand) {
		for _, taken := range []int{1, 2, 3, 4, 7} {
			for length := 1; length <= 41; length++ {
				const stride = 50
				what := fmt.Sprintf("%d taps, %d channels", taken, length)
				taps, u := newGuarded(r, taken*stride, 3, 1), newGuarded(r, taken*stride, length%8, 1)
				a := newGuarded(r, length, length%5, 1)
				b := a.clone()
				n.conv(a.x, taps.x[:len(taps.x)-9], u.x, stride) // from channel 9 on
				plain.conv(b.x, taps.x[:len(taps.x)-9], u.x, stride)
				same(t, what, a.x, b.x, 2e-6, 1)
				a.check(t, what)
			}
		}
	})
}
