package sim_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// kernelOf makes a source of a kernel k whose body begins on line 5.
func kernelOf(body string) string {
	return `#include <metal_stdlib>
using namespace metal;
kernel void k(device uint* x [[buffer(0)]], device uint* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint3 g [[threadgroup_position_in_grid]],
              uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
` + body + "\n}\n"
}

// launch runs the kernel k of source on 2 threadgroups of 64 threads, x of 256 words that count up and y of 256 zeros, and
// returns the pass's error and y.
func launch(t *testing.T, d *metal.Device, source string, change func(l *metal.Launch)) ([]uint32, error) {
	t.Helper()
	lib, err := d.NewLibrary("k.metal", source)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	p, err := lib.NewPipeline("k")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var buffers [2]*metal.Buffer
	for i := range buffers {
		if buffers[i], err = d.NewBuffer(1024); err != nil {
			t.Fatal(err)
		}
		defer buffers[i].Close()
	}
	bytes := make([]byte, 1024)
	for i := range 256 {
		binary.LittleEndian.PutUint32(bytes[4*i:], uint32(i))
	}
	if err := buffers[0].Write(bytes, 0); err != nil {
		t.Fatal(err)
	}
	l := metal.Launch{Pipeline: p, Buffers: []metal.Binding{{Buffer: buffers[0], Access: metal.In}, {Buffer: buffers[1], Access: metal.Out}},
		Bytes: []byte{64, 0, 0, 0}, Groups: metal.Line(2), Threads: metal.Line(64)}
	if change != nil {
		change(&l)
	}
	err = run(t, d, l)
	if err := buffers[1].Read(bytes, 0); err != nil {
		t.Fatal(err)
	}
	words := make([]uint32, 256)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return words, err
}

// run dispatches launches in one level.
func run(t *testing.T, d *metal.Device, launches ...metal.Launch) error {
	t.Helper()
	pass, err := d.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	if err := pass.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, l := range launches {
		dispatch, err := d.NewDispatch(l)
		if err != nil {
			t.Fatal(err)
		}
		defer dispatch.Close()
		pass.Dispatch(dispatch)
	}
	if err := pass.Commit(); err != nil {
		t.Fatal(err)
	}
	return pass.Wait()
}

func TestMistakesAreFound(t *testing.T) {
	cases := []struct {
		name, code string
		change     func(*metal.Launch)
		want       []string // parts of the error; none: it must pass
	}{
		{name: "correct", code: "if (tid < 32) y[g.x * 64 + tid] = x[tid];"},
		{name: "barrier in a branch", code: "if (tid < 32)\nthreadgroup_barrier(mem_flags::mem_none);\ny[g.x] = 0;",
			want: []string{"k, threadgroup", "threadgroup_barrier of line 6"}},
		{name: "return before a barrier", code: "if (tid == 5) return;\nthreadgroup_barrier(mem_flags::mem_none);",
			want: []string{"threadgroup_barrier of line 6"}},
		{name: "two barriers", code: "if (tid < 32)\nthreadgroup_barrier(mem_flags::mem_none);\nelse\nthreadgroup_barrier(mem_flags::mem_none);",
			want: []string{"line 6", "line 8"}},
		{name: "sum without some lanes", code: "if (lane == 3) return;\ny[tid + 64 * g.x] = simd_sum(tid);",
			want: []string{"lanes have returned before the simdgroup operation of line 6"}},
		{name: "different sums", code: "if (lane < 3)\ny[tid + 64 * g.x] = simd_sum(tid);\nelse\ny[tid + 64 * g.x] = simd_sum(n);",
			want: []string{"lanes of a simdgroup are at different places", "line 6", "line 8"}},
		{name: "sum or barrier", code: "if (lane < 3)\ny[tid + 64 * g.x] = simd_sum(tid);\nthreadgroup_barrier(mem_flags::mem_none);",
			want: []string{"line 6"}},
		{name: "misaligned vector", code: "if (tid == 0)\ny[g.x] = (*(device uint4*)(x + 1)).w;",
			want: []string{"access of line 6", "multiple of 16", "4 above"}},
		{name: "read past the end", code: "if (tid == 0)\ny[g.x] = x[256 + n];", want: []string{"line 6", "outside all bindings"}},
		{name: "read past the binding", code: "y[g.x * 64 + tid] =\nx[tid];", change: func(l *metal.Launch) { l.Buffers[0].Length = 64 },
			want: []string{"line 6", "outside all bindings", "after the end of buffer 0"}},
		{name: "write to an input", code: "x[g.x * 64 + tid] = 1;", want: []string{"line 5", "buffer 0", "reading only"}},
		{name: "read of an output", code: "x[0] + y[tid] == 7 ? (void)(y[n + tid] = 1) : (void)0;", want: []string{"line 5", "buffer 1", "writing only"}},
		{name: "foreign store", code: "y[g.x * 64 + tid] = tid;\nif (y[(1 - g.x) * 64 + tid] == 1000) y[200] = 1;", change: func(l *metal.Launch) { l.Buffers[1].Access = metal.InOut },
			want: []string{"line 6", "buffer 1", "another threadgroup"}},
		{name: "own store", code: "y[g.x * 64 + tid] = tid;\nif (y[g.x * 64 + tid] == 1000) y[200] = 1;", change: func(l *metal.Launch) { l.Buffers[1].Access = metal.InOut }},
		{name: "foreign atomic", code: "device atomic_uint* a = (device atomic_uint*)y;\natomic_fetch_add_explicit(a, 1u, memory_order_relaxed);\nif (atomic_load_explicit(a, memory_order_relaxed) == 1000) y[200] = 1;",
			change: func(l *metal.Launch) { l.Buffers[1].Access = metal.InOut }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := simtest.Open(t, sim.Options{Check: true})
			_, err := launch(t, d, kernelOf(c.code), c.change)
			if len(c.want) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want it to say %q", err, w)
				}
			}
		})
	}
}
