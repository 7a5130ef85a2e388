package sim_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// evaluate computes MSL expressions of type uint in each of 64 threads: a and b are words of input, lane and tid as usual.
// The result is indexed by expression and thread.
func evaluate(t *testing.T, d *metal.Device, expressions []string, input [2][64]uint32) [][64]uint32 {
	t.Helper()
	var source strings.Builder
	source.WriteString(`#include <metal_stdlib>
using namespace metal;
#define F(v) as_type<float>(v)
#define U(v) as_type<uint>(v)
kernel void k(device const uint* x [[buffer(0)]], device uint* y [[buffer(1)]], uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  uint a = x[tid], b = x[64 + tid];
`)
	for i, e := range expressions {
		fmt.Fprintf(&source, "  y[%d + tid] = %s;\n", 64*i, e)
	}
	source.WriteString("}\n")
	x, err := d.NewBuffer(512)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := d.NewBuffer(int64(256 * len(expressions)))
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	bytes := make([]byte, 256*max(2, len(expressions)))
	for i := range 128 {
		binary.LittleEndian.PutUint32(bytes[4*i:], input[i/64][i%64])
	}
	if err := x.Write(bytes[:512], 0); err != nil {
		t.Fatal(err)
	}
	lib, err := d.NewLibrary("k.metal", source.String())
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	p, err := lib.NewPipeline("k")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l := metal.Launch{Pipeline: p, Buffers: []metal.Binding{{Buffer: x, Access: metal.In}, {Buffer: y, Access: metal.Out}}, Groups: metal.Line(1), Threads: metal.Line(64)}
	if err := run(t, d, l); err != nil {
		t.Fatal(err)
	}
	bytes = bytes[:256*len(expressions)]
	if err := y.Read(bytes, 0); err != nil {
		t.Fatal(err)
	}
	out := make([][64]uint32, len(expressions))
	for i := range 64 * len(expressions) {
		out[i/64][i%64] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return out
}

func TestMath(t *testing.T) {
	f := func(m func(float64) float64) func(a, b float64) float64 {
		return func(a, _ float64) float64 { return m(a) }
	}
	cases := []struct {
		name     string
		want     func(a, b float64) float64
		expr     string
		from, to float64 // of a; b is from 0.1 to 3
		ulp      float64
	}{
		{"exp", f(math.Exp), "exp(F(a))", -80, 80, 2},
		{"exp2", f(math.Exp2), "exp2(F(a))", -120, 120, 2},
		{"log", f(math.Log), "log(F(a))", 0.01, 50, 2},
		{"log2", f(math.Log2), "log2(F(a))", 0.01, 50, 2},
		{"log10", f(math.Log10), "log10(F(a))", 0.01, 50, 2},
		{"sin", f(math.Sin), "sin(F(a))", -60, 60, 2},
		{"cos", f(math.Cos), "cos(F(a))", -60, 60, 2},
		{"large sin", f(math.Sin), "sin(F(a))", 1e5, 1e7, 2},
		{"tan", f(math.Tan), "tan(F(a))", -1.5, 1.5, 4},
		{"tanh", f(math.Tanh), "precise::tanh(F(a))", -12, 12, 2},
		{"sinh", f(math.Sinh), "sinh(F(a))", -5, 5, 4},
		{"cosh", f(math.Cosh), "cosh(F(a))", -5, 5, 4},
		{"atan", f(math.Atan), "atan(F(a))", -9, 9, 3},
		{"atan2", math.Atan2, "atan2(F(a), F(b))", -9, 9, 3},
		{"asin", f(math.Asin), "asin(F(a))", -0.99, 0.99, 4},
		{"acos", f(math.Acos), "acos(F(a))", -0.99, 0.99, 4},
		{"asinh", f(math.Asinh), "asinh(F(a))", 0.5, 9, 4},
		{"acosh", f(math.Acosh), "acosh(F(a))", 1.5, 9, 4},
		{"atanh", f(math.Atanh), "atanh(F(a))", 0.1, 0.9, 5},
		{"pow", math.Pow, "pow(F(a), F(b))", 0.1, 9, 2},
		{"sqrt", f(math.Sqrt), "sqrt(F(a))", 0, 9, 0.5},
		{"rsqrt", func(a, _ float64) float64 { return 1 / math.Sqrt(a) }, "rsqrt(F(a))", 0.1, 9, 1.5},
		{"fast exp", f(math.Exp), "fast::exp(F(a))", -20, 20, 2},
		{"fma", func(a, b float64) float64 { return a*b + a }, "fma(F(a), F(b), F(a))", -3, 3, 0.5},
		{"fmod", math.Mod, "fmod(F(a), F(b))", -100, 100, 0.5},
		{"round", f(math.Round), "round(F(a))", -9, 9, 0},
		{"rint", f(math.RoundToEven), "rint(F(a))", -9, 9, 0},
		{"floor", f(math.Floor), "floor(F(a))", -9, 9, 0},
		{"trunc", f(math.Trunc), "trunc(F(a))", -9, 9, 0},
		{"divide", func(a, b float64) float64 { return a / b }, "F(a) / F(b)", -9, 9, 0.5},
		{"vector", f(math.Exp), "exp(float4(0.0f, float2(F(a), 2.0f), 1.0f)).y", -9, 9, 2},
		{"clamp", func(a, b float64) float64 { return math.Min(math.Max(a, -1), b) }, "clamp(F(a), -1.0f, F(b))", -9, 9, 0},
		{"ldexp", func(a, _ float64) float64 { return math.Ldexp(a, 7) }, "ldexp(F(a), 7)", -9, 9, 0},
	}
	d := simtest.Open(t, sim.Options{})
	for at := 0; at < len(cases); at += 11 { // some at once: each kernel takes clang a second
		part := cases[at:min(at+11, len(cases))]
		var expressions []string
		for _, c := range part {
			expressions = append(expressions, strings.ReplaceAll("U("+c.expr+")", "F(a)", fmt.Sprintf("fma(F(a), %ef, %ef)", float32(c.to-c.from), float32(c.from))))
		}
		var in [2][64]uint32
		for i := range 64 {
			in[0][i] = math.Float32bits((float32(i) + 0.5) / 64)
			in[1][i] = math.Float32bits(0.1 + float32(i*37%64)/22)
		}
		got := evaluate(t, d, expressions, in)
		for j, c := range part {
			for i := range 64 {
				a := float64(float32(float64(math.Float32frombits(in[0][i]))*float64(float32(c.to-c.from)) + float64(float32(c.from))))
				b := float64(math.Float32frombits(in[1][i]))
				want, have := c.want(a, b), float64(math.Float32frombits(got[j][i]))
				unit := math.Ldexp(1, max(math.Ilogb(want), -126)-23)
				if diff := math.Abs(have - want); !(diff <= (c.ulp+0.01)*unit) {
					t.Errorf("%s(%v, %v) = %v, want %v: %.1f ulp off", c.name, a, b, have, want, diff/unit)
					break
				}
			}
		}
	}
}

func TestIntegers(t *testing.T) {
	cases := []struct {
		expr string
		want func(a, b uint32) uint32
	}{
		{"popcount(a)", func(a, b uint32) uint32 { return uint32(bits.OnesCount32(a)) }},
		{"clz(a)", func(a, b uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }},
		{"ctz(a)", func(a, b uint32) uint32 { return uint32(bits.TrailingZeros32(a)) }},
		{"uint(clz(ushort(a)))", func(a, b uint32) uint32 { return uint32(bits.LeadingZeros16(uint16(a))) }},
		{"mulhi(a, b)", func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }},
		{"uint(mulhi(int(a), int(b)))", func(a, b uint32) uint32 { return uint32(uint64(int64(int32(a))*int64(int32(b))) >> 32) }},
		{"rotate(a, 5u)", func(a, b uint32) uint32 { return bits.RotateLeft32(a, 5) }},
		{"reverse_bits(a)", func(a, b uint32) uint32 { return bits.Reverse32(a) }},
		{"extract_bits(a, 3u, 7u)", func(a, b uint32) uint32 { return a >> 3 & 127 }},
		{"uint(extract_bits(int(a), 3u, 7u))", func(a, b uint32) uint32 { return uint32(int32(a<<22) >> 25) }},
		{"insert_bits(a, b, 4u, 8u)", func(a, b uint32) uint32 { return a&^0xff0 | b&0xff<<4 }},
		{"max(a, b)", func(a, b uint32) uint32 { return max(a, b) }},
		{"uint(min(int(a), int(b)))", func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }},
		{"abs(int(a))", func(a, b uint32) uint32 {
			if int32(a) < 0 {
				return -a
			}
			return a
		}},
		{"absdiff(a, b)", func(a, b uint32) uint32 { return max(a, b) - min(a, b) }},
		{"addsat(a, b)", func(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }},
		{"subsat(a, b)", func(a, b uint32) uint32 { return a - min(a, b) }},
		{"hadd(a, b)", func(a, b uint32) uint32 { return uint32((uint64(a) + uint64(b)) / 2) }},
		{"rhadd(a, b)", func(a, b uint32) uint32 { return uint32((uint64(a) + uint64(b) + 1) / 2) }},
		{"uint4(a, uint2(b, a), b).z", func(a, b uint32) uint32 { return a }},
		{"uint(select(1, 2, a < b))", func(a, b uint32) uint32 {
			if a < b {
				return 2
			}
			return 1
		}},
		{"select(uint2(a, b), uint2(b, a), uint2(a, b) < uint2(b, a)).x", func(a, b uint32) uint32 { return max(a, b) }},
		{"any(uint2(a, b) == uint2(b, a)) ? 1u : 0u", func(a, b uint32) uint32 {
			if a == b {
				return 1
			}
			return 0
		}},
		{"as_type<uint>(as_type<ushort2>(a).yx)", func(a, b uint32) uint32 { return a<<16 | a>>16 }},
		{"as_type<uint>(uchar4(uint4(a, b, a, b)))", func(a, b uint32) uint32 { return (a&255 | b&255<<8) * 0x10001 }},
	}
	var in [2][64]uint32
	for i := range 64 {
		in[0][i], in[1][i] = uint32(i)*2654435761>>(i%31), uint32(i+3)*2246822519>>(i%29)
	}
	in[0][0], in[1][1] = 0, in[0][1]
	var expressions []string
	for _, c := range cases {
		expressions = append(expressions, c.expr)
	}
	got := evaluate(t, simtest.Open(t, sim.Options{}), expressions, in)
	for j, c := range cases {
		for i := range 64 {
			if want := c.want(in[0][i], in[1][i]); got[j][i] != want {
				t.Errorf("%s with a = %#x, b = %#x: %#x, want %#x", c.expr, in[0][i], in[1][i], got[j][i], want)
				break
			}
		}
	}
}
