package sim_test

import (
	"strings"
	"testing"
	"time"

	"lilypad/metal"
	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

// adder holds a pipeline that adds the constant n to each of 64 words of a buffer, and such a buffer.
type adder struct {
	device   *metal.Device
	pipeline *metal.Pipeline
	buffer   *metal.Buffer
}

func newAdder(t *testing.T, o sim.Options) *adder {
	t.Helper()
	a := &adder{device: simtest.Open(t, o)}
	lib, err := a.device.NewLibrary("add.metal", `#include <metal_stdlib>
using namespace metal;
kernel void add(device uint* y [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_position_in_grid]]) { y[i] += n; }
`)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	if a.pipeline, err = lib.NewPipeline("add"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.pipeline.Close)
	if a.buffer, err = a.device.NewBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.buffer.Close)
	return a
}

// dispatch adds n to the 64 words from byte offset on.
func (a *adder) dispatch(t *testing.T, n byte, offset int64) *metal.Dispatch {
	t.Helper()
	d, err := a.device.NewDispatch(metal.Launch{Pipeline: a.pipeline, Bytes: []byte{n, 0, 0, 0}, Groups: metal.Line(2), Threads: metal.Line(32),
		Buffers: []metal.Binding{{Buffer: a.buffer, Offset: offset, Length: 256, Access: metal.InOut}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// pass encodes by encode, runs and waits.
func (a *adder) pass(t *testing.T, encode func(p *metal.Pass)) error {
	t.Helper()
	p, err := a.device.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	encode(p)
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	return p.Wait()
}

func TestConstantsAreThoseOfTheEncoding(t *testing.T) {
	a := newAdder(t, sim.Options{})
	d := a.dispatch(t, 1, 0)
	r, err := a.device.NewRecording([]*metal.Dispatch{d, nil, d})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e, err := a.device.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err = a.pass(t, func(p *metal.Pass) {
		p.Dispatch(d) // 1
		p.Barrier()
		if err := d.SetBytes([]byte{10, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		p.Dispatch(d) // 10
		p.Barrier()
		p.Replay(r) // 1 + 1
		p.Signal(e, 7)
		p.Barrier()
		p.Replay(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(7, time.Second); err != nil {
		t.Error(err)
	}
	if got := a.buffer.Memory()[252]; got != 15 {
		t.Errorf("last word %d, want 15", got)
	}
}

func TestMissingBarrierIsFound(t *testing.T) {
	a := newAdder(t, sim.Options{Check: true})
	first, overlapping, apart := a.dispatch(t, 1, 0), a.dispatch(t, 1, 252), a.dispatch(t, 1, 256)
	err := a.pass(t, func(p *metal.Pass) { p.Dispatch(first); p.Dispatch(overlapping) })
	if err == nil || !strings.Contains(err.Error(), "no barrier between add (buffer 0, bytes [0, 256)) and add (buffer 0, bytes [252, 508))") {
		t.Errorf("got %v, want the missing barrier", err)
	}
	if err := a.pass(t, func(p *metal.Pass) { p.Dispatch(first); p.Dispatch(apart); p.Barrier(); p.Dispatch(overlapping) }); err != nil {
		t.Error(err)
	}
}

func TestTrafficIsCompared(t *testing.T) {
	a := newAdder(t, sim.Options{Check: true, Exact: true})
	cases := []struct {
		name          string
		length        int64
		reads, writes int64
		want          string // part of the error; "" for none
	}{
		{"exact", 256, 256, 256, ""},
		{"exact by default", 256, 0, 0, ""},
		{"reads less than declared", 512, 512, 256, "buffer 0: 256 unique bytes read and 256 written, but 512 and 256 declared"},
		{"writes more than declared", 256, 256, 128, "buffer 0: 256 unique bytes read and 256 written, but 256 and 128 declared"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, err := a.device.NewDispatch(metal.Launch{Pipeline: a.pipeline, Bytes: []byte{1, 0, 0, 0}, Groups: metal.Line(2), Threads: metal.Line(32),
				Buffers: []metal.Binding{{Buffer: a.buffer, Length: c.length, Access: metal.InOut, Reads: c.reads, Writes: c.writes}}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			err = a.pass(t, func(p *metal.Pass) { p.Dispatch(d) })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCPUEncodingAllocatesNothing(t *testing.T) {
	a := newAdder(t, sim.Options{})
	d := a.dispatch(t, 1, 0)
	r, err := a.device.NewRecording([]*metal.Dispatch{d, nil, d})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := a.device.NewPass()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := testing.AllocsPerRun(100, func() {
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		p.Dispatch(d)
		p.Barrier()
		p.Replay(r)
		if err := p.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a pass, want none", n)
	}
}

func TestPoison(t *testing.T) {
	d := simtest.Open(t, sim.Options{Poison: true})
	b, err := d.NewBuffer(100)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got := make([]byte, 100)
	if err := b.Read(got, 0); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != 0xff {
			t.Fatalf("byte %d is %#x, want 0xff", i, v)
		}
	}
}
