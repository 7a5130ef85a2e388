package sim_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// These tests hold for every driver. LILYPAD_SIM=cuda runs them on an NVIDIA GPU, at sizes that measure it.

const stepSource = `
#include <metal_stdlib>
using namespace metal;

struct Params { uint add; uint multiply; uint table[4]; uint pick; };

kernel void step_all(device const uint* x [[buffer(0)]], device uint* y [[buffer(1)]], constant Params& p [[buffer(2)]],
                     uint i [[thread_position_in_grid]]) {
  y[i] = x[i] * p.multiply + p.add;
}

kernel void pick(device uint* y [[buffer(0)]], constant Params& p [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = p.table[(p.pick + i) % 4];
}

kernel void copy16(device const uint4* x [[buffer(0)]], device uint4* y [[buffer(1)]], uint group [[threadgroup_position_in_grid]],
                   uint thread_index [[thread_index_in_threadgroup]]) {
  device const uint4* from = x + ulong(group) * 1024 + thread_index;
  device uint4* to = y + ulong(group) * 1024 + thread_index;
  uint4 a = from[0], b = from[256], c = from[512], d = from[768];
  to[0] = a;
  to[256] = b;
  to[512] = c;
  to[768] = d;
}

kernel void far_store(device uint* y [[buffer(0)]], constant uint& at [[buffer(1)]]) { y[ulong(at) << 32] = 1; }
`

type params struct {
	Add, Multiply uint32
	Table         [4]uint32
	Pick          uint32
}

func bytesOf(t testing.TB, v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rig is a device with the kernels above; what it makes is closed with the test.
type rig struct {
	testing.TB
	*metal.Device
	library *metal.Library
}

func newRig(t testing.TB) *rig {
	d := simtest.Open(t, sim.Options{})
	l := must(d.NewLibrary("step.metal", stepSource))(t)
	t.Cleanup(l.Close)
	return &rig{t, d, l}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (r *rig) pipeline(name string) *metal.Pipeline {
	p := must(r.library.NewPipeline(name))(r)
	r.Cleanup(p.Close)
	return p
}

func (r *rig) buffer(length int64) *metal.Buffer {
	b := must(r.NewBuffer(length))(r)
	r.Cleanup(b.Close)
	return b
}

func (r *rig) dispatch(l metal.Launch) *metal.Dispatch {
	d := must(r.NewDispatch(l))(r)
	r.Cleanup(d.Close)
	return d
}

// run encodes a pass, runs it and returns how long the GPU took.
func (r *rig) run(encode func(*metal.Pass)) time.Duration {
	r.Helper()
	p := must(r.NewPass())(r)
	defer p.Close()
	if err := p.Begin(); err != nil {
		r.Fatal(err)
	}
	encode(p)
	if err := p.Commit(); err != nil {
		r.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		r.Fatal(err)
	}
	start, end := p.Times()
	return time.Duration((end - start) * 1e9)
}

func (r *rig) words(b *metal.Buffer, n int) []uint32 {
	raw := make([]byte, 4*n)
	if err := b.Read(raw, 0); err != nil {
		r.Fatal(err)
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

// chain is n dispatches, each computing 3x+i of what the one before left, by turns from a to b and back.
func (r *rig) chain(a, b *metal.Buffer, n int) (ops []*metal.Dispatch, want uint32) {
	p := r.pipeline("step_all")
	for i := range n {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		ops = append(ops, r.dispatch(metal.Launch{
			Pipeline: p, Buffers: []metal.Binding{{Buffer: from, Access: metal.In}, {Buffer: to, Access: metal.Out}},
			Bytes: bytesOf(r, params{Add: uint32(i), Multiply: 3}), Groups: metal.Line(4), Threads: metal.Line(64),
		}), nil)
		want = 3*want + uint32(i)
	}
	return ops, want
}

func TestDeviceRunsAChain(t *testing.T) {
	for _, c := range []struct {
		name     string
		recorded bool
	}{{"encoded", false}, {"recorded", true}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.buffer(1024), r.buffer(1024)
			ops, want := r.chain(a, b, 300)
			recording := must(r.NewRecording(ops))(t)
			t.Cleanup(recording.Close)
			r.run(func(p *metal.Pass) {
				if c.recorded {
					p.Replay(recording)
					return
				}
				for _, op := range ops {
					if op == nil {
						p.Barrier()
					} else {
						p.Dispatch(op)
					}
				}
			})
			if got := r.words(a, 256); slices.ContainsFunc(got, func(v uint32) bool { return v != want }) {
				t.Errorf("got %v..., want %d", got[:4], want)
			}
		})
	}
}

// Constants are those of the time of encoding; a recording keeps its own.
func TestDeviceTakesConstantsAtEncoding(t *testing.T) {
	r := newRig(t)
	x, y := r.buffer(1024), r.buffer(1024)
	d := r.dispatch(metal.Launch{
		Pipeline: r.pipeline("step_all"), Buffers: []metal.Binding{{Buffer: x, Access: metal.In}, {Buffer: y, Access: metal.Out}},
		Bytes: bytesOf(t, params{Add: 1}), Groups: metal.Line(4), Threads: metal.Line(64),
	})
	recording := must(r.NewRecording([]*metal.Dispatch{d}))(t)
	t.Cleanup(recording.Close)
	r.run(func(p *metal.Pass) {
		p.Dispatch(d)
		if err := d.SetBytes(bytesOf(t, params{Add: 2})); err != nil {
			t.Fatal(err)
		}
	})
	if got := r.words(y, 1)[0]; got != 1 {
		t.Errorf("encoded before SetBytes: got %d, want 1", got)
	}
	r.run(func(p *metal.Pass) { p.Dispatch(d) })
	if got := r.words(y, 1)[0]; got != 2 {
		t.Errorf("encoded after SetBytes: got %d, want 2", got)
	}
	r.run(func(p *metal.Pass) { p.Replay(recording) })
	if got := r.words(y, 1)[0]; got != 1 {
		t.Errorf("recorded before SetBytes: got %d, want 1", got)
	}
}

func TestDeviceIndexesConstants(t *testing.T) {
	r := newRig(t)
	y := r.buffer(256)
	d := r.dispatch(metal.Launch{
		Pipeline: r.pipeline("pick"), Buffers: []metal.Binding{{Buffer: y, Access: metal.Out}},
		Bytes: bytesOf(t, params{Table: [4]uint32{10, 20, 30, 40}, Pick: 1}), Groups: metal.Line(1), Threads: metal.Line(64),
	})
	r.run(func(p *metal.Pass) { p.Dispatch(d) })
	if got := r.words(y, 5); !slices.Equal(got, []uint32{20, 30, 40, 10, 20}) {
		t.Errorf("got %v", got)
	}
}

func TestDeviceCountsEvents(t *testing.T) {
	r := newRig(t)
	a, b := r.buffer(1024), r.buffer(1024)
	ops, _ := r.chain(a, b, 1)
	e := must(r.NewEvent())(t)
	t.Cleanup(e.Close)
	r.run(func(p *metal.Pass) {
		p.Signal(e, 7)
		p.Dispatch(ops[0])
		p.Barrier()
		p.Signal(e, 1<<40)
	})
	if err := e.Wait(1<<40, time.Second); err != nil || e.Value() != 1<<40 {
		t.Errorf("error %v, value %d, want %d", err, e.Value(), uint64(1)<<40)
	}
	if err := e.Wait(1<<40+1, time.Millisecond); err == nil {
		t.Error("a value that was never signalled was waited for")
	}
}

// A failed kernel ends the GPU's context, so it gets a process of its own. On the CPU it would end the process: there only
// the sanitizer's tests do such things, and this one compiles the kernel.
func TestDeviceFailsOnForeignMemory(t *testing.T) {
	onGPU := os.Getenv("LILYPAD_SIM") == "cuda"
	if onGPU && os.Getenv("LILYPAD_FAULT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDeviceFailsOnForeignMemory$", "-test.v")
		cmd.Env = append(os.Environ(), "LILYPAD_FAULT=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "touched foreign memory") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	r := newRig(t)
	far := r.pipeline("far_store")
	if !onGPU {
		return
	}
	d := r.dispatch(metal.Launch{
		Pipeline: far, Buffers: []metal.Binding{{Buffer: r.buffer(1024), Access: metal.Out}},
		Bytes: bytesOf(t, uint32(200)), Groups: metal.Line(1), Threads: metal.Line(1),
	})
	p := must(r.NewPass())(t)
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	p.Dispatch(d)
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	var failed *metal.PassError
	if err := p.Wait(); !errors.As(err, &failed) || failed.Failure != metal.PageFault {
		t.Fatalf("error %v, want a page fault", err)
	}
	t.Log(failed)
}

func TestDeviceEncodingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	a, b := r.buffer(1024), r.buffer(1024)
	ops, _ := r.chain(a, b, 20)
	recording := must(r.NewRecording(ops))(t)
	t.Cleanup(recording.Close)
	p := must(r.NewPass())(t)
	t.Cleanup(p.Close)
	round := func() {
		_ = p.Begin()
		for _, op := range ops {
			if op == nil {
				p.Barrier()
			} else {
				p.Dispatch(op)
			}
		}
		p.Replay(recording)
		if err := p.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if n := testing.AllocsPerRun(20, round); n > 8 { // Wait's reading of times
		t.Errorf("%v allocations a round of 40 launches", n)
	}
}

// BenchmarkCopy is the bandwidth to compare kernels with: bytes read and written.
func BenchmarkCopy(b *testing.B) {
	r := newRig(b)
	length := int64(4 << 20)
	if r.Info().Driver == "sim:cuda" {
		length = 4 << 30
	}
	d := r.dispatch(metal.Launch{
		Pipeline: r.pipeline("copy16"), Groups: metal.Line(int(length >> 14)), Threads: metal.Line(256),
		Buffers: []metal.Binding{{Buffer: r.buffer(length), Access: metal.In}, {Buffer: r.buffer(length), Access: metal.Out}},
	})
	var took time.Duration
	r.run(func(p *metal.Pass) { p.Dispatch(d) })
	for b.Loop() {
		took += r.run(func(p *metal.Pass) { p.Dispatch(d) })
	}
	if took > 0 {
		b.ReportMetric(2*float64(length)*float64(b.N)/took.Seconds()/1e9, "GB/s")
	}
}

// BenchmarkLaunch is what a launch costs in a chain of 345 that each wait for the one before.
func BenchmarkLaunch(b *testing.B) {
	r := newRig(b)
	x, y := r.buffer(1024), r.buffer(1024)
	ops, _ := r.chain(x, y, 345)
	recording := must(r.NewRecording(ops))(b)
	b.Cleanup(recording.Close)
	for _, c := range []struct {
		name   string
		encode func(*metal.Pass)
	}{
		{"encoded", func(p *metal.Pass) {
			for _, op := range ops {
				if op == nil {
					p.Barrier()
				} else {
					p.Dispatch(op)
				}
			}
		}},
		{"recorded", func(p *metal.Pass) { p.Replay(recording) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				took += r.run(c.encode)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/345, "ns/launch")
		})
	}
}
