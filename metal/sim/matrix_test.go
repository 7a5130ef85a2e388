package sim_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// Both simdgroups compute 8x8 products of x's first two matrices (TYPE) by way of threadgroup memory: c = a*b + 2*identity,
// and d, which is c stored transposed.
const matrixSource = `#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint tid [[thread_index_in_threadgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
  threadgroup TYPE s[2 * 80];
  for (uint i = tid; i < 64; i += 64) {
    s[i / 8 * 10 + i % 8] = TYPE(x[i]);
    s[80 + i / 8 * 10 + i % 8] = TYPE(x[64 + i]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_matrix<TYPE, 8, 8> a, b;
  simdgroup_load(a, s, 10);
  simdgroup_load(b, s + 80, 10, ulong2(0, 0), true);
  simdgroup_float8x8 c = simdgroup_float8x8(2.0f), zero = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), ones = simdgroup_float8x8(1.0f), d;
  simdgroup_multiply_accumulate(c, a, b, c);
  simdgroup_multiply(d, c, ones);
  simdgroup_multiply_accumulate(d, zero, ones, d);
  simdgroup_store(c, y + sg * 128, 8);
  simdgroup_store(d, y + sg * 128 + 64, 8, ulong2(0, 0), true);
}
`

func TestMatrices(t *testing.T) {
	d := simtest.Open(t, sim.Options{Check: true})
	for _, kind := range []string{"float", "half", "bfloat"} {
		t.Run(kind, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var x [128]float32
			for i := range x {
				x[i] = float32(random.IntN(17)-8) / 4 // exact in every type
			}
			y := matrixRun(t, d, strings.ReplaceAll(matrixSource, "TYPE", kind), x[:])
			for i := range 8 {
				for j := range 8 {
					var want float32
					if i == j {
						want = 2
					}
					for k := range 8 {
						want += x[8*i+k] * x[64+8*j+k]
					}
					for sg := range 2 {
						if got, turned := y[128*sg+8*i+j], y[128*sg+64+8*j+i]; got != want || turned != want {
							t.Fatalf("element %d,%d: %v and %v, want %v", i, j, got, turned, want)
						}
					}
				}
			}
		})
	}
}

func matrixRun(t *testing.T, d *metal.Device, source string, x []float32) []float32 {
	t.Helper()
	var in []byte
	for _, v := range x {
		in = binary.LittleEndian.AppendUint32(in, math.Float32bits(v))
	}
	words, err := launch(t, d, source, func(l *metal.Launch) {
		if err := l.Buffers[0].Buffer.Write(in, 0); err != nil {
			t.Fatal(err)
		}
		l.Bytes, l.Groups = nil, metal.Line(1)
	})
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float32, len(words))
	for i, w := range words {
		y[i] = math.Float32frombits(w)
	}
	return y
}

func TestAtomics(t *testing.T) {
	const source = `#include <metal_stdlib>
using namespace metal;
kernel void k(device const uint* x [[buffer(0)]], device uint* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint3 g [[threadgroup_position_in_grid]],
              uint tid [[thread_index_in_threadgroup]]) {
  device atomic_uint* c = (device atomic_uint*)y;
  threadgroup atomic_int t[2];
  if (tid < 2) atomic_store_explicit(&t[tid], -5, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&t[0], 2, memory_order_relaxed);
  atomic_fetch_max_explicit(&t[1], int(tid) - 9, memory_order_relaxed);
  atomic_fetch_add_explicit(&c[0], x[tid], memory_order_relaxed);
  atomic_fetch_min_explicit(&c[1], tid, memory_order_relaxed);
  atomic_fetch_or_explicit(&c[2], 1u << (tid % 32), memory_order_relaxed);
  atomic_fetch_add_explicit((device atomic_float*)&y[3], 0.5f, memory_order_relaxed);
  uint seen = atomic_load_explicit(&c[4], memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&c[4], &seen, seen + 3, memory_order_relaxed, memory_order_relaxed)) {}
  atomic_exchange_explicit(&c[5], n, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    atomic_fetch_add_explicit(&c[6], uint(atomic_load_explicit(&t[0], memory_order_relaxed)), memory_order_relaxed);
    atomic_fetch_add_explicit(&c[7], uint(atomic_load_explicit(&t[1], memory_order_relaxed)), memory_order_relaxed);
  }
}
`
	const groups, sum = 300, 63 * 64 / 2
	want := []uint32{groups * sum, 0, 0xffffffff, math.Float32bits(groups * 32), groups * 64 * 3, 64, groups * 123, groups * 54}
	for _, o := range []sim.Options{{Threads: 4}, {Check: true}} {
		y, err := launch(t, simtest.Open(t, o), source, func(l *metal.Launch) {
			l.Groups, l.Buffers[1].Access = metal.Line(groups), metal.InOut
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if y[i] != w {
				t.Errorf("word %d: %#x, want %#x (%+v)", i, y[i], w, o)
			}
		}
	}
}
