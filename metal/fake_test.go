package metal_test

import (
	"errors"
	"testing"
	"time"

	"lilypad/metal"
)

var errFake = errors.New("told to fail")

// fakeDriver notes what reaches it. Everything that the API refuses must not.
type fakeDriver struct {
	log         []string // encoding and the life of passes
	fail        string   // the method that fails next
	open        int
	maxThreads  int
	threadgroup int
	closed      bool
}

func (f *fakeDriver) failing(method string) error {
	if f.fail == method {
		return errFake
	}
	f.open++
	return nil
}

func (f *fakeDriver) note(s string) {
	if len(f.log) < cap(f.log) { // tests of allocations give no capacity
		f.log = append(f.log, s)
	}
}

func (f *fakeDriver) Info() metal.Info {
	return metal.Info{Driver: "fake", Name: "Fake GPU", MaxBuffer: 1 << 20, Shared: true}
}

func (f *fakeDriver) NewLibrary(_, source string) (metal.DriverLibrary, error) {
	if source == "bad" {
		return nil, &metal.CompileError{Line: 3, Text: "program_source:3:1: error: bad"}
	}
	return &fakeLibrary{f}, f.failing("library")
}

func (f *fakeDriver) NewBuffer(length int64) (metal.DriverBuffer, error) {
	return &fakeBuffer{f, make([]byte, length)}, f.failing("buffer")
}

func (f *fakeDriver) WrapBuffer(memory []byte) (metal.DriverBuffer, error) {
	return &fakeBuffer{f, memory}, f.failing("wrap")
}

func (f *fakeDriver) NewDispatch(l *metal.Launch) (metal.DriverDispatch, error) {
	return &fakeDispatch{f: f, name: l.Pipeline.Name(), groups: l.Groups}, f.failing("dispatch")
}

func (f *fakeDriver) NewRecording(ops []metal.DriverDispatch) (metal.DriverRecording, error) {
	return &fakeRecording{f, ops}, f.failing("recording")
}

func (f *fakeDriver) NewPass() (metal.DriverPass, error) { return &fakePass{f}, f.failing("pass") }

func (f *fakeDriver) NewEvent() (metal.DriverEvent, error) {
	return &fakeEvent{f: f}, f.failing("event")
}

func (f *fakeDriver) Close() error { f.closed = true; return nil }

type fakeLibrary struct{ f *fakeDriver }

func (l *fakeLibrary) NewPipeline(string, []metal.Constant) (metal.DriverPipeline, error) {
	return &fakePipeline{l.f}, l.f.failing("pipeline")
}
func (l *fakeLibrary) Close() { l.f.open-- }

type fakePipeline struct{ f *fakeDriver }

func (p *fakePipeline) MaxThreads() int        { return p.f.maxThreads }
func (p *fakePipeline) ThreadgroupMemory() int { return p.f.threadgroup }
func (p *fakePipeline) Close()                 { p.f.open-- }

type fakeBuffer struct {
	f      *fakeDriver
	memory []byte
}

func (b *fakeBuffer) Read(dst []byte, offset int64) error  { copy(dst, b.memory[offset:]); return nil }
func (b *fakeBuffer) Write(src []byte, offset int64) error { copy(b.memory[offset:], src); return nil }
func (b *fakeBuffer) Memory() []byte                       { return b.memory }
func (b *fakeBuffer) Close()                               { b.f.open-- }

type fakeDispatch struct {
	f      *fakeDriver
	name   string
	bytes  []byte
	groups metal.Size
}

func (d *fakeDispatch) SetBytes(b []byte)           { d.bytes = b }
func (d *fakeDispatch) SetGroups(groups metal.Size) { d.groups = groups }
func (d *fakeDispatch) Close()                      { d.f.open-- }

type fakeRecording struct {
	f   *fakeDriver
	ops []metal.DriverDispatch
}

func (r *fakeRecording) Close() { r.f.open-- }

type fakePass struct{ f *fakeDriver }

func (p *fakePass) Begin() error {
	if p.f.fail == "begin" {
		return errFake
	}
	p.f.note("begin")
	return nil
}
func (p *fakePass) Dispatch(d metal.DriverDispatch) { p.f.note(d.(*fakeDispatch).name) }
func (p *fakePass) Barrier()                        { p.f.note("barrier") }
func (p *fakePass) Replay(metal.DriverRecording)    { p.f.note("replay") }
func (p *fakePass) Signal(e metal.DriverEvent, value uint64) {
	e.(*fakeEvent).value = value
	p.f.note("signal")
}
func (p *fakePass) Times() (start, end float64) { return 1, 2 }
func (p *fakePass) Close()                      { p.f.open--; p.f.note("close") }
func (p *fakePass) Commit() error {
	if p.f.fail == "commit" {
		return errFake
	}
	p.f.note("commit")
	return nil
}
func (p *fakePass) Wait() error {
	p.f.note("wait")
	if p.f.fail == "wait" {
		return &metal.PassError{Failure: metal.Hang, Code: 1, Text: "told to"}
	}
	return nil
}

type fakeEvent struct {
	f     *fakeDriver
	value uint64
}

func (e *fakeEvent) Value() uint64                           { return e.value }
func (e *fakeEvent) Wait(value uint64, _ time.Duration) bool { return e.value >= value }
func (e *fakeEvent) Close()                                  { e.f.open-- }

// rig is a device with one of everything.
type rig struct {
	f        *fakeDriver
	device   *metal.Device
	library  *metal.Library
	pipeline *metal.Pipeline
	buffer   *metal.Buffer // 1024 bytes
	dispatch *metal.Dispatch
	record   *metal.Recording
	pass     *metal.Pass
	event    *metal.Event
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{f: &fakeDriver{maxThreads: 512, log: make([]string, 0, 100)}}
	r.device = metal.NewDevice(r.f)
	r.library = must[*metal.Library](t)(r.device.NewLibrary("a.metal", "text"))
	r.pipeline = must[*metal.Pipeline](t)(r.library.NewPipeline("kernel_a", metal.Uint(0, 1)))
	r.buffer = must[*metal.Buffer](t)(r.device.NewBuffer(1024))
	r.dispatch = must[*metal.Dispatch](t)(r.device.NewDispatch(r.launch()))
	r.record = must[*metal.Recording](t)(r.device.NewRecording([]*metal.Dispatch{r.dispatch, nil, r.dispatch}))
	r.pass = must[*metal.Pass](t)(r.device.NewPass())
	r.event = must[*metal.Event](t)(r.device.NewEvent())
	return r
}

func (r *rig) launch() metal.Launch {
	return metal.Launch{
		Pipeline: r.pipeline, Bytes: make([]byte, 8), Groups: metal.Line(4), Threads: metal.Line(64),
		Buffers: []metal.Binding{
			{Buffer: r.buffer, Length: 256, Access: metal.In},
			{Buffer: r.buffer, Offset: 512, Access: metal.Out},
		},
	}
}

func (r *rig) close() {
	r.record.Close()
	r.dispatch.Close()
	r.buffer.Close()
	r.pipeline.Close()
	r.library.Close()
	r.pass.Close()
	r.event.Close()
}
