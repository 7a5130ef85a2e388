package sim_test

import (
	"encoding/binary"
	"math"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

const sumSource = `
#include <metal_stdlib>
using namespace metal;
constant uint SCALE [[function_constant(0)]];
struct Params { uint n; };
kernel void sum(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant Params& p [[buffer(2)]],
                uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[4];
  float s = 0.0f;
  for (uint i = tid; i < p.n; i += 128) s += x[group.x * p.n + i];
  s = simd_sum(s);
  if (lane == 0) part[sg] = s;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) y[group.x] = (part[0] + part[1] + part[2] + part[3]) * float(SCALE);
}
`

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func TestSum(t *testing.T) {
	d := simtest.Open(t, sim.Options{CacheDir: t.TempDir()})
	lib, err := d.NewLibrary("sum.metal", sumSource)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	p, err := lib.NewPipeline("sum", metal.Uint(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.ThreadgroupMemory(); got != 16 {
		t.Errorf("threadgroup memory %d, want 16", got)
	}
	const n, groups = 1000, 50
	x, _ := d.NewBuffer(4 * n * groups)
	y, _ := d.NewBuffer(4 * groups)
	defer x.Close()
	defer y.Close()
	for i := range n * groups {
		binary.LittleEndian.PutUint32(x.Memory()[4*i:], math.Float32bits(float32(i%7)))
	}
	l, err := d.NewDispatch(metal.Launch{Pipeline: p, Buffers: []metal.Binding{{Buffer: x, Access: metal.In}, {Buffer: y, Access: metal.Out}},
		Bytes: binary.LittleEndian.AppendUint32(nil, n), Groups: metal.Line(groups), Threads: metal.Line(128)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pass, _ := d.NewPass()
	defer pass.Close()
	if err := pass.Begin(); err != nil {
		t.Fatal(err)
	}
	pass.Dispatch(l)
	if err := pass.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := pass.Wait(); err != nil {
		t.Fatal(err)
	}
	for g, v := range floats(y.Memory()) {
		want := 0
		for i := range n {
			want += (g*n + i) % 7
		}
		if v != float32(3*want) {
			t.Errorf("group %d: %v, want %d", g, v, 3*want)
		}
	}
}
