package sim_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lilypad/metal"
)

// between draws n numbers, those at the ends included.
func between(low, high float64, n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	out := []float32{float32(low), float32(high)}
	for len(out) < n {
		out = append(out, float32(low+(high-low)*r.Float64()))
	}
	return out
}

// anyPositive draws n positive floats of every magnitude.
func anyPositive(n int) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	out := []float32{math.SmallestNonzeroFloat32, math.MaxFloat32}
	for len(out) < n {
		out = append(out, math.Float32frombits(1+r.Uint32N(0x7f7fffff)))
	}
	return out
}

// ulps is the distance of got from want in units of want's last place.
func ulps(got float32, want float64) float64 {
	if math.IsNaN(want) && got != got || want > math.MaxFloat32 && math.IsInf(float64(got), 1) || math.IsInf(want, -1) && math.IsInf(float64(got), -1) {
		return 0
	}
	_, e := math.Frexp(want)
	d := math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
	if d != d {
		return math.Inf(1)
	}
	return d
}

// apply runs body, an MSL expression of x and y, for each pair.
func apply(t *testing.T, body string, xs, ys []float32) []float32 {
	r := newRig(t)
	l := must(r.NewLibrary("math.metal", fmt.Sprintf(`
#include <metal_stdlib>
using namespace metal;
kernel void apply(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]], device float* out [[buffer(2)]],
                  constant uint& n [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  float x = a[min(i, n - 1)], y = b[min(i, n - 1)];
  if (i < n) out[i] = %s;
}`, body)))(t)
	t.Cleanup(l.Close)
	p := must(l.NewPipeline("apply"))(t)
	t.Cleanup(p.Close)
	var buffers []metal.Binding
	for _, v := range [][]float32{xs, ys} {
		b := r.buffer(int64(4 * len(xs)))
		if err := b.Write(bytesOf(t, v[:len(xs)]), 0); err != nil {
			t.Fatal(err)
		}
		buffers = append(buffers, metal.Binding{Buffer: b, Access: metal.In})
	}
	out := r.buffer(int64(4 * len(xs)))
	d := r.dispatch(metal.Launch{
		Pipeline: p, Buffers: append(buffers, metal.Binding{Buffer: out, Access: metal.Out}),
		Bytes: bytesOf(t, uint32(len(xs))), Groups: metal.Line((len(xs) + 255) / 256), Threads: metal.Line(256),
	})
	r.run(func(p *metal.Pass) { p.Dispatch(d) })
	raw := make([]byte, 4*len(xs))
	if err := out.Read(raw, 0); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(xs))
	for i := range got {
		got[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return got
}

// The header's own functions are within 2 ulp of the truth, at every size of argument and at what has no finite answer.
func TestDeviceMathWithinTwoUlps(t *testing.T) {
	const n = 20000
	inf := float32(math.Inf(1))
	special := []float32{0, inf, -inf, float32(math.NaN()), -1, 1}
	for _, c := range []struct {
		name string
		at   []float32
		want func(float64) float64
	}{
		{"exp", append(between(-110, 95, n), special...), math.Exp},
		{"exp2", append(between(-155, 130, n), special...), math.Exp2},
		{"exp10", append(between(-46, 39, n), special...), func(x float64) float64 { return math.Pow(10, x) }},
		{"log", append(append(anyPositive(n), between(0.9, 1.1, n)...), special...), math.Log},
		{"log2", append(append(anyPositive(n), between(0.9, 1.1, n)...), special...), math.Log2},
		{"log10", append(append(anyPositive(n), between(0.9, 1.1, n)...), special...), math.Log10},
		{"sin", append(append(anyPositive(n), between(-3e4, 3e4, n)...), special...), math.Sin},
		{"cos", append(append(anyPositive(n), between(-3e4, 3e4, n)...), special...), math.Cos},
		{"tanh", append(append(anyPositive(n), between(-11, 11, n)...), special...), math.Tanh},
		{"rsqrt", append(anyPositive(n), inf), func(x float64) float64 { return 1 / math.Sqrt(x) }},
		{"sqrt", append(anyPositive(n), special...), math.Sqrt},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, got := range apply(t, c.name+"(x)", c.at, c.at) {
				if want := c.want(float64(c.at[i])); ulps(got, want) > 2 {
					t.Fatalf("%s(%v) = %v, want %v: %.1f ulp apart", c.name, c.at[i], got, want, ulps(got, want))
				}
			}
		})
	}
}

func TestDevicePowWithinTwoUlps(t *testing.T) {
	const n = 20000
	xs, ys := append(between(0, 3, n), anyPositive(n)...), append(between(-60, 60, n), between(-2, 2, n)...)
	inf := float32(math.Inf(1))
	for _, x := range []float32{0, -0.5, -2, -8, 1, inf, -inf, float32(math.NaN())} {
		for _, y := range []float32{0, 1, 2, 3, -3, 0.5, inf, -inf, float32(math.NaN())} {
			if !(x < 0 && math.IsInf(float64(x), 0)) {
				xs, ys = append(xs, x), append(ys, y)
			}
		}
	}
	for i, got := range apply(t, "pow(x, y)", xs, ys) {
		if want := math.Pow(float64(xs[i]), float64(ys[i])); ulps(got, want) > 2 {
			t.Fatalf("pow(%v, %v) = %v, want %v: %.1f ulp apart", xs[i], ys[i], got, want, ulps(got, want))
		}
	}
}
