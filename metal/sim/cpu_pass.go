//go:build linux && amd64 && !nosim

package sim

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"lilypad/metal"
)

// cpuPass is a command buffer: a sequence of dispatches and, between them, signals.
type cpuPass struct {
	cpuOps
	driver     *cpuDriver
	signals    []cpuSignal
	done       chan error
	start, end time.Duration // since the clock's zero
}

type cpuSignal struct {
	after int // dispatches
	event *cpuEvent
	value uint64
}

// NewPass makes an empty pass.
func (d *cpuDriver) NewPass() (metal.DriverPass, error) {
	return &cpuPass{driver: d, done: make(chan error, 1)}, nil
}

func (p *cpuPass) Begin() error {
	p.reset()
	p.signals = p.signals[:0]
	return nil
}

func (p *cpuPass) Dispatch(d metal.DriverDispatch) { p.add(d.(*cpuDispatch)) }

func (p *cpuPass) Barrier() { p.level++ }

func (p *cpuPass) Replay(r metal.DriverRecording) { p.replay(&r.(*cpuRecording).cpuOps) }

func (p *cpuPass) Signal(e metal.DriverEvent, value uint64) {
	p.signals = append(p.signals, cpuSignal{len(p.ops), e.(*cpuEvent), value})
}

func (p *cpuPass) Commit() error {
	p.place()
	p.driver.queue <- p
	return nil
}

func (p *cpuPass) Wait() error { return <-p.done }

func (p *cpuPass) Times() (start, end float64) { return p.start.Seconds(), p.end.Seconds() }

func (p *cpuPass) Close() {}

var clock = time.Now()

// execute runs committed passes in their order until the queue is closed.
func (d *cpuDriver) execute() {
	runtime.LockOSThread()
	for p := range d.queue {
		p.start = time.Since(clock)
		err := p.run()
		p.end = time.Since(clock)
		p.done <- err
	}
	close(d.stopped)
}

// run runs the dispatches up to each signal, then signals. After a failure nothing more runs, but waiters are released.
func (p *cpuPass) run() (err error) {
	if p.driver.mode.check {
		err = findHazard(&p.cpuOps)
	}
	at := 0
	for _, s := range p.signals {
		if err == nil {
			err = p.driver.runOps(&p.cpuOps, at, s.after)
		}
		at = s.after
		s.event.value.Store(s.value)
	}
	if err == nil {
		err = p.driver.runOps(&p.cpuOps, at, len(p.ops))
	}
	return err
}

// runOps runs the dispatches [from, to).
func (d *cpuDriver) runOps(o *cpuOps, from, to int) error {
	if from == to {
		return nil
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	var traces []trace
	if d.mode.check {
		traces = d.watch(o, from, to)
	}
	d.args = [5]uintptr{uintptr(unsafe.Pointer(&o.ops[from])), uintptr(to - from), uintptr(d.workers), uintptr(d.seed), uintptr(unsafe.Pointer(&d.failed))}
	code, _, _ := purego.SyscallN(d.run, d.args[:]...)
	runtime.KeepAlive(o)
	runtime.KeepAlive(traces)
	if code == 0 {
		if d.options.Exact {
			return compareTraffic(o, from, traces)
		}
		return nil
	}
	return d.explain(o.from[from+int(d.failed.op)], &d.failed)
}
