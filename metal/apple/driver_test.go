package apple

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilypad/metal"
)

// station is a device on a world with one of everything.
type station struct {
	w        *world
	device   *metal.Device
	library  *metal.Library
	pipeline *metal.Pipeline
	buffer   *metal.Buffer
	dispatch *metal.Dispatch
	pass     *metal.Pass
	event    *metal.Event
}

// build makes a station, or says which step failed; what was made is closed by close.
func build(w *world) (s *station, err error) {
	s = &station{w: w}
	d, err := newDriver(w.runtime())
	if err != nil {
		return s, err
	}
	s.device = metal.NewDevice(d)
	if s.library, err = s.device.NewLibrary("a.metal", "source"); err != nil {
		return s, err
	}
	constants := []metal.Constant{metal.Bool(0, true), metal.Int(1, -1), metal.Uint(2, 7), metal.Float(3, 1)}
	if s.pipeline, err = s.library.NewPipeline("kernel_a", constants...); err != nil {
		return s, err
	}
	if s.buffer, err = s.device.NewBuffer(1000); err != nil {
		return s, err
	}
	s.dispatch, err = s.device.NewDispatch(metal.Launch{
		Pipeline: s.pipeline, Bytes: []byte("abcd"), Groups: metal.Line(4), Threads: metal.Line(64),
		Buffers: []metal.Binding{
			{Buffer: s.buffer, Length: 256, Access: metal.In},
			{Buffer: s.buffer, Offset: 512, Access: metal.Out},
		},
	})
	if err != nil {
		return s, err
	}
	if s.pass, err = s.device.NewPass(); err != nil {
		return s, err
	}
	s.event, err = s.device.NewEvent()
	return s, err
}

// close frees everything and complains about what is left.
func (s *station) close() {
	s.w.t.Helper()
	if s.pass != nil {
		s.pass.Close()
	}
	if s.dispatch != nil {
		s.dispatch.Close()
	}
	if s.buffer != nil {
		s.buffer.Close()
	}
	if s.pipeline != nil {
		s.pipeline.Close()
	}
	if s.library != nil {
		s.library.Close()
	}
	if s.event != nil {
		s.event.Close()
	}
	if s.device != nil {
		if err := s.device.Close(); err != nil {
			s.w.t.Error(err)
		}
	}
	if left := s.w.alive(); len(left) > 0 {
		s.w.t.Errorf("left over: %v", left)
	}
	if n := len(s.w.pools); n > 0 {
		s.w.t.Errorf("%d pools are left open", n)
	}
}

func newStation(t *testing.T, change func(*world)) *station {
	t.Helper()
	w := newWorld(t)
	if change != nil {
		change(w)
	}
	s, err := build(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	w.sent = nil
	return s
}

func (s *station) wantSent(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(s.w.sent, "; "); got != want {
		t.Errorf("sent %q\nwant %q", got, want)
	}
	s.w.sent = nil
}

func TestEverythingIsReleased(t *testing.T) {
	s := newStation(t, nil)
	for range 3 {
		if err := s.pass.Begin(); err != nil {
			t.Fatal(err)
		}
		s.pass.Dispatch(s.dispatch)
		s.pass.Signal(s.event, 1)
		if err := errors.Join(s.pass.Commit(), s.pass.Wait()); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever can't be made is an error, and what was made for it is released.
func TestNothingLeaksOnFailure(t *testing.T) {
	for _, f := range []string{
		"newCommandQueue", "newFence", "newResidencySetWithDescriptor:error:", "newLibraryWithSource:options:error:",
		"newFunctionWithName:constantValues:error:", "newComputePipelineStateWithFunction:error:",
		"newBufferWithLength:options:", "contents", "newSharedEvent", "threadExecutionWidth",
		"commandBufferWithUnretainedReferences", "computeCommandEncoderWithDispatchType:",
	} {
		t.Run(f, func(t *testing.T) {
			w := newWorld(t)
			w.fail = f
			s, err := build(w)
			if err == nil {
				t.Error("no error")
			}
			if strings.HasSuffix(f, "error:") && !strings.Contains(fmt.Sprint(err), "it was told to fail") {
				t.Errorf("error %v lacks the reason", err)
			}
			s.close()
		})
	}
	for _, f := range []string{"commandBufferWithUnretainedReferences", "computeCommandEncoderWithDispatchType:"} {
		t.Run(f, func(t *testing.T) {
			s := newStation(t, nil)
			s.w.fail = f
			if err := s.pass.Begin(); err == nil {
				t.Error("no error")
			}
			s.w.fail = ""
			if err := errors.Join(s.pass.Begin(), s.pass.Commit(), s.pass.Wait()); err != nil {
				t.Errorf("the next round: %v", err)
			}
		})
	}
}

// A macOS that lacks a method is an error that names it, not an exception.
func TestMissingMethods(t *testing.T) {
	met := map[string]bool{}
	for _, row := range selectors {
		if row.since > floor || !strings.HasPrefix(row.class, "MTL") {
			continue
		}
		t.Run(row.class+" "+row.name, func(t *testing.T) {
			w := newWorld(t)
			w.lacks = row.name
			s, err := build(w)
			if err == nil || !strings.Contains(err.Error(), "macOS 15.1 (24B83) has a "+row.class+" without "+row.name) {
				t.Errorf("error %v", err)
			}
			s.close()
		})
		met[row.class] = true
	}
	if len(met) < 11 {
		t.Errorf("only %d classes were tried", len(met))
	}
}

func TestDeviceDiscovery(t *testing.T) {
	for _, c := range []struct {
		name string
		fail string
		ok   bool
	}{
		{"list of devices", "", true},
		{"empty list", "count", true},
		{"no list", "MTLCopyAllDevices", true},
		{"default device only missing", "MTLCreateSystemDefaultDevice", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.fail = c.fail
			d, err := newDriver(w.runtime())
			if (err == nil) != c.ok {
				t.Fatal(err)
			}
			_ = d.Close()
			(&station{w: w}).close()
		})
	}
	t.Run("nothing", func(t *testing.T) {
		w := newWorld(t)
		r := w.runtime()
		whole := r.call
		r.call = func(f function, words []uintptr) uintptr {
			if f == fnCopyAllDevices || f == fnDefaultDevice {
				return 0
			}
			return whole(f, words)
		}
		if _, err := newDriver(r); err == nil || !strings.Contains(err.Error(), "macOS shows no GPU") {
			t.Errorf("error %v", err)
		}
		(&station{w: w}).close()
	})
}

func TestInfo(t *testing.T) {
	s := newStation(t, nil)
	want := metal.Info{Driver: "metal", Name: "Apple M9", Family: 9, Cores: 40, OS: "macOS 15.1 (24B83)", MaxBuffer: 1 << 22, WorkingSet: 1 << 23, Shared: true}
	if got := s.device.Info(); got != want {
		t.Errorf("info %+v\nwant %+v", got, want)
	}
	for _, f := range []string{"IOServiceMatching", "IOServiceGetMatchingService", "IORegistryEntryCreateCFProperty"} {
		w := newWorld(t)
		w.fail = f
		r := w.runtime()
		pool := r.pool()
		if n := coreCount(r); n != 0 {
			t.Errorf("%s fails: %d cores, want 0", f, n)
		}
		r.drain(pool)
	}
}

func TestTooOld(t *testing.T) {
	for _, c := range []struct {
		name, version, want string
		family              uintptr
	}{
		{"macOS", "13.6", "macOS 13.6 is too old, 14 is needed", 1009},
		{"macOS of a strange form", "x", "macOS x is too old", 1009},
		{"GPU", "14.0", "GPU Apple M9 is older than Apple7 (M1), or virtual", 1006},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.family = c.family
			r := w.runtime()
			r.version = c.version
			if _, err := newDriver(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			(&station{w: w}).close()
		})
	}
}

func TestCompileOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		old  bool
		want string
	}{
		{"macOS 15", false, "compile  version 196609 mode 0 functions 1"},
		{"macOS 14", true, "compile  version 196609 fast 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStation(t, func(w *world) { w.old = c.old })
			l, err := s.device.NewLibrary("b.metal", "source")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			s.wantSent(t, c.want)
		})
	}
}

func TestFunctionConstants(t *testing.T) {
	s := newStation(t, nil)
	for _, c := range []struct {
		constants []metal.Constant
		want      string
	}{
		{nil, "function kernel_a"},
		{[]metal.Constant{metal.Bool(0, true), metal.Int(1, -1), metal.Uint(2, 7), metal.Float(3, 1)},
			"function kernel_a 0:53=1 1:29=ffffffff 2:33=7 3:3=3f800000"},
	} {
		p, err := s.library.NewPipeline("kernel_a", c.constants...)
		if err != nil {
			t.Fatal(err)
		}
		if p.MaxThreads() != 832 || p.ThreadgroupMemory() != 4096 {
			t.Errorf("%d threads and %d bytes, want 832 and 4096", p.MaxThreads(), p.ThreadgroupMemory())
		}
		p.Close()
		s.wantSent(t, c.want)
	}
}

func TestBuffers(t *testing.T) {
	s := newStation(t, nil)
	if s.buffer.Length() != 1000 || len(s.buffer.Memory()) != 1000 {
		t.Errorf("length %d, memory %d, want 1000", s.buffer.Length(), len(s.buffer.Memory()))
	}
	got := make([]byte, 3)
	if err := errors.Join(s.buffer.Write([]byte("xyz"), 997), s.buffer.Read(got, 997)); err != nil || string(got) != "xyz" {
		t.Errorf("read %q, %v", got, err)
	}
	whole, err := s.device.NewBuffer(s.device.Info().MaxBuffer)
	if err != nil {
		t.Fatal(err)
	}
	whole.Close()
}

func TestResidency(t *testing.T) {
	round := func(s *station) {
		if err := errors.Join(s.pass.Begin(), s.pass.Commit(), s.pass.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	const pass = "command buffer; encoder 1; wait for fence; update fence; end; commit; wait"
	t.Run("macOS 15", func(t *testing.T) {
		s := newStation(t, nil)
		round(s)
		s.wantSent(t, "set of 1; resident; "+pass)
		round(s)
		s.wantSent(t, pass)
		b, err := s.device.NewBuffer(8)
		if err != nil {
			t.Fatal(err)
		}
		round(s)
		s.wantSent(t, "set of 2; resident; "+pass)
		b.Close()
		s.wantSent(t, "set of 1")
	})
	t.Run("macOS 14", func(t *testing.T) {
		s := newStation(t, func(w *world) { w.old = true })
		round(s)
		s.wantSent(t, pass)
	})
}

func TestOtherThreadsAreRefused(t *testing.T) {
	s := newStation(t, nil)
	s.w.thread = 8
	for name, call := range map[string]func() error{
		"library":  func() error { _, err := s.device.NewLibrary("b", ""); return err },
		"pipeline": func() error { _, err := s.library.NewPipeline("b"); return err },
		"buffer":   func() error { _, err := s.device.NewBuffer(1); return err },
		"event":    func() error { _, err := s.device.NewEvent(); return err },
		"begin":    func() error { return s.pass.Begin() },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "used from thread 0x8, but was opened on 0x7") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	s.w.thread = 7
}

func TestEventWaits(t *testing.T) {
	s := newStation(t, nil)
	if err := s.event.Wait(1, 1500*time.Microsecond); err == nil {
		t.Error("the event was never signalled, but the wait returned")
	}
	if err := s.pass.Begin(); err != nil {
		t.Fatal(err)
	}
	s.pass.Signal(s.event, 3)
	if err := errors.Join(s.pass.Commit(), s.pass.Wait(), s.event.Wait(3, 0)); err != nil || s.event.Value() != 3 {
		t.Errorf("event at %d, %v", s.event.Value(), err)
	}
}
