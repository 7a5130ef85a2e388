package sim

import (
	"math"
	"sync/atomic"
	"time"

	"lilypad/metal"
	"lilypad/metal/sim/msl"
)

// Tally is what passes of a sim:count device did. It is added to while they are encoded (Options.Tally).
type Tally struct {
	Passes     int
	Dispatches int
	Barriers   int
	Levels     int   // runs of dispatches without a barrier between them: what must happen one after another
	Read       int64 // unique bytes that dispatches declare to read (Binding.Reads), constants not counted
	Written    int64
	Kernels    map[string]KernelTally // by name
}

// KernelTally is one kernel's part of a Tally.
type KernelTally struct {
	Dispatches    int
	Read, Written int64
}

// counter is sim:count: it counts passes and runs nothing. Its buffers have a length and no memory.
type counter struct{ tally *Tally }

func newCounter(t *Tally) *counter {
	if t == nil {
		t = &Tally{}
	}
	return &counter{t}
}

func (c *counter) Info() metal.Info {
	return metal.Info{Driver: "sim:count", Name: "counting GPU", Family: 7, MaxBuffer: math.MaxInt64, WorkingSet: math.MaxInt64}
}

func (c *counter) Close() error { return nil }

// NewLibrary checks source by the front end's rules, without clang.
func (c *counter) NewLibrary(_, source string) (metal.DriverLibrary, error) {
	unit, err := msl.Translate(source)
	if err != nil {
		return nil, err
	}
	return countLibrary{unit}, nil
}

func (c *counter) NewBuffer(length int64) (metal.DriverBuffer, error) { return countBuffer{}, nil }

func (c *counter) WrapBuffer([]byte) (metal.DriverBuffer, error) { return nil, metal.ErrNoSharedMemory }

func (c *counter) NewDispatch(l *metal.Launch) (metal.DriverDispatch, error) {
	d := &countDispatch{name: l.Pipeline.Name()}
	for i := range l.Buffers {
		b := &l.Buffers[i]
		if b.Access&metal.In != 0 {
			d.read += b.Reads
		}
		if b.Access&metal.Out != 0 {
			d.written += b.Writes
		}
	}
	return d, nil
}

func (c *counter) NewRecording(ops []metal.DriverDispatch) (metal.DriverRecording, error) {
	return countRecording{append([]metal.DriverDispatch(nil), ops...)}, nil
}

func (c *counter) NewPass() (metal.DriverPass, error) { return &countPass{counter: c}, nil }

func (c *counter) NewEvent() (metal.DriverEvent, error) { return &countEvent{}, nil }

type countLibrary struct{ unit *msl.Unit }

func (l countLibrary) Close() {}

func (l countLibrary) NewPipeline(function string, constants []metal.Constant) (metal.DriverPipeline, error) {
	k, err := findKernel(l.unit, function)
	if err != nil {
		return nil, err
	}
	if _, err := l.unit.C(constants); err != nil {
		return nil, err
	}
	return countPipeline{k}, nil
}

type countPipeline struct{ kernel *msl.Kernel }

func (p countPipeline) MaxThreads() int {
	if p.kernel.MaxThreads > 0 {
		return p.kernel.MaxThreads
	}
	return metal.MaxThreads
}

func (p countPipeline) ThreadgroupMemory() int { return 0 }
func (p countPipeline) Close()                 {}

type countBuffer struct{}

// Read gives zeros, which is what counting leaves in every buffer.
func (countBuffer) Read(dst []byte, _ int64) error { clear(dst); return nil }
func (countBuffer) Write([]byte, int64) error      { return nil }
func (countBuffer) Memory() []byte                 { return nil }
func (countBuffer) Close()                         {}

type countDispatch struct {
	name          string
	read, written int64
}

func (*countDispatch) SetBytes([]byte)      {}
func (*countDispatch) SetGroups(metal.Size) {}
func (*countDispatch) Close()               {}

type countRecording struct{ ops []metal.DriverDispatch }

func (countRecording) Close() {}

// countPass adds to the tally while it is encoded.
type countPass struct {
	counter *counter
	fresh   bool // the next dispatch begins a level
}

func (p *countPass) Begin() error { p.fresh = true; p.counter.tally.Passes++; return nil }

func (p *countPass) Dispatch(d metal.DriverDispatch) {
	t, c := p.counter.tally, d.(*countDispatch)
	if p.fresh {
		t.Levels++
		p.fresh = false
	}
	t.Dispatches++
	t.Read += c.read
	t.Written += c.written
	if t.Kernels == nil {
		t.Kernels = map[string]KernelTally{}
	}
	k := t.Kernels[c.name]
	k.Dispatches++
	k.Read += c.read
	k.Written += c.written
	t.Kernels[c.name] = k
}

func (p *countPass) Barrier() { p.counter.tally.Barriers++; p.fresh = true }

func (p *countPass) Replay(r metal.DriverRecording) {
	for _, op := range r.(countRecording).ops {
		if op == nil {
			p.Barrier()
		} else {
			p.Dispatch(op)
		}
	}
}

func (p *countPass) Signal(e metal.DriverEvent, value uint64) { e.(*countEvent).value.Store(value) }
func (p *countPass) Commit() error                            { return nil }
func (p *countPass) Wait() error                              { return nil }
func (p *countPass) Times() (start, end float64)              { return 0, 0 }
func (p *countPass) Close()                                   {}

type countEvent struct{ value atomic.Uint64 }

func (e *countEvent) Value() uint64                           { return e.value.Load() }
func (e *countEvent) Wait(value uint64, _ time.Duration) bool { return e.value.Load() >= value }
func (e *countEvent) Close()                                  {}
