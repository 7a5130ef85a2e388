package sim_test

import (
	"math"
	"testing"

	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// inputs are words whose lower bits differ between lanes.
func inputs() (in [2][64]uint32) {
	for i := range 64 {
		in[0][i], in[1][i] = uint32(i*i%61+i), uint32(i+3)*2246822519
	}
	return in
}

func TestLanes(t *testing.T) {
	// want gets a and b of the simdgroup's lanes and a lane.
	type lanes = []uint32
	float := func(u uint32) float32 { return math.Float32frombits(u) }
	fold := func(f func(x, y uint32) uint32) func(a, b lanes, l int) uint32 {
		return func(a, _ lanes, _ int) uint32 {
			s := a[0]
			for _, v := range a[1:] {
				s = f(s, v)
			}
			return s
		}
	}
	at := func(pick func(l int) int) func(a, b lanes, l int) uint32 {
		return func(a, _ lanes, l int) uint32 { return a[pick(l)] }
	}
	cases := []struct {
		expr string
		want func(a, b lanes, l int) uint32
	}{
		{"simd_sum(a)", fold(func(x, y uint32) uint32 { return x + y })},
		{"uint(simd_sum(float(a)))", fold(func(x, y uint32) uint32 { return x + y })},
		{"uint(simd_sum(half(a)))", fold(func(x, y uint32) uint32 { return x + y })},
		{"uint(simd_sum(ushort(b)))", func(_, b lanes, _ int) uint32 {
			var s uint16
			for _, v := range b {
				s += uint16(v)
			}
			return uint32(s)
		}},
		{"simd_sum(uint4(b, a, b, a)).y", fold(func(x, y uint32) uint32 { return x + y })},
		{"simd_max(a)", fold(func(x, y uint32) uint32 { return max(x, y) })},
		{"simd_min(a)", fold(func(x, y uint32) uint32 { return min(x, y) })},
		{"uint(simd_max(int(a) - 50) + 50)", fold(func(x, y uint32) uint32 { return max(x, y) })},
		{"uint(-simd_min(-float(a)))", fold(func(x, y uint32) uint32 { return max(x, y) })},
		{"simd_product(b | 1u)", func(_, b lanes, _ int) uint32 {
			p := uint32(1)
			for _, v := range b {
				p *= v | 1
			}
			return p
		}},
		{"simd_or(a)", fold(func(x, y uint32) uint32 { return x | y })},
		{"simd_and(a)", fold(func(x, y uint32) uint32 { return x & y })},
		{"simd_xor(a)", fold(func(x, y uint32) uint32 { return x ^ y })},
		{"simd_prefix_inclusive_sum(a)", func(a, _ lanes, l int) uint32 {
			s := uint32(0)
			for _, v := range a[:l+1] {
				s += v
			}
			return s
		}},
		{"uint(simd_prefix_exclusive_sum(float(a)))", func(a, _ lanes, l int) uint32 {
			s := uint32(0)
			for _, v := range a[:l] {
				s += v
			}
			return s
		}},
		{"simd_shuffle(a, ushort(lane * 7 % 32))", at(func(l int) int { return l * 7 % 32 })},
		{"simd_shuffle_xor(a, 5)", at(func(l int) int { return l ^ 5 })},
		{"simd_shuffle_up(a, 3)", at(func(l int) int {
			if l < 3 {
				return l
			}
			return l - 3
		})},
		{"simd_shuffle_down(a, 3)", at(func(l int) int {
			if l > 28 {
				return l
			}
			return l + 3
		})},
		{"simd_shuffle_rotate_up(a, 3)", at(func(l int) int { return (l + 29) % 32 })},
		{"simd_shuffle_rotate_down(a, 3)", at(func(l int) int { return (l + 3) % 32 })},
		{"simd_shuffle_and_fill_up(a, b, 3)", func(a, b lanes, l int) uint32 {
			if l < 3 {
				return b[29+l]
			}
			return a[l-3]
		}},
		{"simd_broadcast(a, 9)", at(func(int) int { return 9 })},
		{"simd_broadcast_first(a)", at(func(int) int { return 0 })},
		{"quad_shuffle(a, 2)", at(func(l int) int { return l&^3 + 2 })},
		{"quad_sum(a)", func(a, _ lanes, l int) uint32 { q := a[l&^3:]; return q[0] + q[1] + q[2] + q[3] }},
		{"uint(ulong(simd_ballot(a % 3 == 1)))", func(a, _ lanes, _ int) uint32 {
			s := uint32(0)
			for l, v := range a {
				if v%3 == 1 {
					s |= 1 << l
				}
			}
			return s
		}},
		{"simd_any(a == 9) ? 1u : 0u", func(a, _ lanes, _ int) uint32 {
			for _, v := range a {
				if v == 9 {
					return 1
				}
			}
			return 0
		}},
		{"simd_all(a < 1000) ? 1u : 0u", func(lanes, lanes, int) uint32 { return 1 }},
		{"U(simd_sum(1.0f / float(a + 1)))", func(a, _ lanes, _ int) uint32 { // the order of the sum is part of the contract with sim:cuda
			var v [32]float32
			for l := range v {
				v[l] = 1 / float32(a[l]+1)
			}
			for step := 16; step > 0; step /= 2 {
				for l := range step {
					v[l] += v[l+step]
				}
			}
			return math.Float32bits(v[0])
		}},
		{"U(simd_max(F(b)))", func(_, b lanes, _ int) uint32 {
			m := float32(math.Inf(-1))
			for _, v := range b {
				if f := float(v); f > m {
					m = f
				}
			}
			return math.Float32bits(m)
		}},
	}
	var expressions []string
	for _, c := range cases {
		expressions = append(expressions, c.expr)
	}
	in := inputs()
	for _, check := range []bool{false, true} {
		got := evaluate(t, simtest.Open(t, sim.Options{Check: check}), expressions, in)
		for j, c := range cases {
			for i := range 64 {
				g := i &^ 31
				if want := c.want(in[0][g:g+32], in[1][g:g+32], i%32); got[j][i] != want {
					t.Errorf("%s in thread %d: %#x, want %#x (check %v)", c.expr, i, got[j][i], want, check)
					break
				}
			}
		}
	}
}

// bf16 rounds to nearest even.
func bf16(f float32) float32 {
	u := math.Float32bits(f)
	return math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
}

func TestNarrowFloats(t *testing.T) {
	half := func(f float32) float32 { // rounds to 11 bits: the inputs are in half's normal range
		scale := math.Ldexp(1, 10-math.Ilogb(float64(f)))
		return float32(math.RoundToEven(float64(f)*scale) / scale)
	}
	cases := []struct {
		expr string
		want func(a, b float32) float32
	}{
		{"float(half(F(a)))", func(a, _ float32) float32 { return half(a) }},
		{"float(half(F(a)) * half(F(b)) + half(F(a)))", func(a, b float32) float32 { return half(half(half(a)*half(b)) + half(a)) }},
		{"float(half(F(a)) / half(F(b)))", func(a, b float32) float32 { return half(half(a) / half(b)) }},
		{"float(half4(F(a), half2(F(b)), 1.0h).z)", func(_, b float32) float32 { return half(b) }},
		{"float(fma(half(F(a)), half(F(b)), 1.0h))", func(a, b float32) float32 { return half(half(a)*half(b) + 1) }},
		{"float(bfloat(F(a)))", func(a, _ float32) float32 { return bf16(a) }},
		{"float(bfloat(float(bfloat(F(a))) * F(b)))", func(a, b float32) float32 { return bf16(bf16(a) * b) }},
		{"float(as_type<bfloat>(ushort(a >> 16)))", func(a, _ float32) float32 { return math.Float32frombits(math.Float32bits(a) &^ 0xffff) }},
		{"float(bfloat4(float4(F(a), F(b), 1.0f, 2.0f)).y)", func(_, b float32) float32 { return bf16(b) }},
		{"float2(bfloat2(bfloat(F(a)), bfloat(F(b)))).y", func(_, b float32) float32 { return bf16(b) }},
		{"max(bfloat(F(b)), 100.0f)", func(float32, float32) float32 { return 100 }},
		{"dot(float3(F(a), F(b), 1.0f), float3(2.0f, 0.5f, 1.0f))", func(a, b float32) float32 { return a*2 + b*0.5 + 1 }},
	}
	var expressions []string
	for _, c := range cases {
		expressions = append(expressions, "U(float("+c.expr+"))")
	}
	var in [2][64]uint32
	for i := range 64 {
		in[0][i], in[1][i] = math.Float32bits(1+float32(i)*0.12345), math.Float32bits(0.5+float32(i*29%64)*0.0371)
	}
	got := evaluate(t, simtest.Open(t, sim.Options{}), expressions, in)
	for j, c := range cases {
		for i := range 64 {
			a, b := math.Float32frombits(in[0][i]), math.Float32frombits(in[1][i])
			if want, have := c.want(a, b), math.Float32frombits(got[j][i]); have != want {
				t.Errorf("%s with a = %v, b = %v: %v, want %v", c.expr, a, b, have, want)
				break
			}
		}
	}
}
