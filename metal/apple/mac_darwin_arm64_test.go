package apple

import (
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"lilypad/metal"
)

// What only a Mac can show: run by whoever has one, with `go test -v -bench . ./metal/apple`.

const macSource = `#include <metal_stdlib>
using namespace metal;
constant uint step [[function_constant(0)]];
kernel void add(device uint* a [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    if (i < n) a[i] += step;
}
`

const macElements = 4096

type mac struct {
	device *metal.Device
	buffer *metal.Buffer
	add    *metal.Dispatch
	close  func()
}

func openMac(t testing.TB) *mac {
	t.Helper()
	runtime.LockOSThread()
	device, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	library, err := device.NewLibrary("add.metal", macSource)
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := library.NewPipeline("add", metal.Uint(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := syscall.Mmap(-1, 0, macElements*4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	buffer, err := device.WrapBuffer(memory)
	if err != nil {
		t.Fatal(err)
	}
	add, err := device.NewDispatch(metal.Launch{
		Pipeline: pipeline, Buffers: []metal.Binding{{Buffer: buffer, Access: metal.InOut}},
		Bytes: binary.LittleEndian.AppendUint32(nil, macElements), Groups: metal.Line(macElements / 256), Threads: metal.Line(256),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &mac{device, buffer, add, func() {
		add.Close()
		buffer.Close()
		pipeline.Close()
		library.Close()
		if err := device.Close(); err != nil {
			t.Error(err)
		}
		if err := syscall.Munmap(memory); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	}}
}

// Hundreds of dependent dispatches, in two passes in flight at a time: a lost barrier or fence loses an addition.
func TestMacOrdersDispatchesAndPasses(t *testing.T) {
	m := openMac(t)
	defer m.close()
	t.Logf("%+v", m.device.Info())
	var ops []*metal.Dispatch
	for range 50 {
		ops = append(ops, m.add, nil)
	}
	record, err := m.device.NewRecording(ops)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	event, err := m.device.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer event.Close()
	var passes [2]*metal.Pass
	for i := range passes {
		if passes[i], err = m.device.NewPass(); err != nil {
			t.Fatal(err)
		}
		defer passes[i].Close()
	}
	const rounds = 20
	for i := range rounds {
		p := passes[i%2]
		if i >= 2 {
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		p.Replay(record)
		p.Signal(event, uint64(2*i+1))
		p.Dispatch(m.add)
		p.Signal(event, uint64(2*i+2))
		if err := p.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(event.Wait(2*rounds, 10*time.Second), passes[0].Wait(), passes[1].Wait()); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < macElements*4; i += 4 {
		if got := binary.LittleEndian.Uint32(m.buffer.Memory()[i:]); got != 3*51*rounds {
			t.Fatalf("element %d is %d, want %d", i/4, got, 3*51*rounds)
		}
	}
	if start, end := passes[0].Times(); start <= 0 || end < start {
		t.Errorf("times %v and %v", start, end)
	}
}

func TestMacCompileErrors(t *testing.T) {
	m := openMac(t)
	defer m.close()
	_, err := m.device.NewLibrary("bad.metal", "#include <metal_stdlib>\nkernel void k(device float* a [[buffer(0)]]) { a[0] = nothing; }\n")
	var ce *metal.CompileError
	if !errors.As(err, &ce) || ce.Line != 2 {
		t.Errorf("error %v, want one of line 2", err)
	}
	library, err := m.device.NewLibrary("add.metal", macSource)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	if _, err := library.NewPipeline("absent"); err == nil {
		t.Error("a kernel that isn't there was made")
	}
	if _, err := library.NewPipeline("add"); err == nil {
		t.Error("a kernel was made without the constant that it needs")
	}
}

// BenchmarkMacToken is the time of encoding a token's dispatches, and must allocate nothing.
func BenchmarkMacToken(b *testing.B) {
	m := openMac(b)
	defer m.close()
	var ops []*metal.Dispatch
	for range 345 {
		ops = append(ops, m.add, nil)
	}
	record, err := m.device.NewRecording(ops)
	if err != nil {
		b.Fatal(err)
	}
	defer record.Close()
	pass, err := m.device.NewPass()
	if err != nil {
		b.Fatal(err)
	}
	defer pass.Close()
	b.ReportAllocs()
	encoding := time.Duration(0)
	for b.Loop() {
		if err := pass.Begin(); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		pass.Replay(record)
		encoding += time.Since(start)
		if err := errors.Join(pass.Commit(), pass.Wait()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(encoding.Nanoseconds())/float64(b.N), "ns-encoding/op")
}
