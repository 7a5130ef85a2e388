//go:build linux && !nosim

package sim

import (
	"unsafe"

	"github.com/ebitengine/purego"

	"lilypad/metal"
)

// cudaPass keeps what is encoded and issues it at Commit, into the one stream of all passes. Its lists are reused, so
// that a round allocates nothing.
type cudaPass struct {
	driver     *cudaDriver
	ops        []cudaOp
	bytes      []byte // constants as they were at encoding
	start, end uintptr
	failed     error // of the round's launches
	begun      bool
	times      [2]float64
}

// cudaOp is one of: a dispatch, a replay, a signal.
type cudaOp struct {
	dispatch *cudaDispatch
	groups   metal.Size
	bytes    int // where in cudaPass.bytes
	graph    *cudaGraph
	event    *cudaEvent
	value    uint64
}

// NewPass makes a pass with its two events.
func (d *cudaDriver) NewPass() (metal.DriverPass, error) {
	leave := d.enter()
	defer leave()
	p := &cudaPass{driver: d}
	for _, event := range []*uintptr{&p.start, &p.end} {
		if err := d.call("making an event", d.eventCreate, uintptr(unsafe.Pointer(event)), 0); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *cudaPass) Begin() error {
	p.ops, p.bytes, p.failed = p.ops[:0], p.bytes[:0], nil
	return nil
}

func (p *cudaPass) Dispatch(d metal.DriverDispatch) {
	c := d.(*cudaDispatch)
	p.ops = append(p.ops, cudaOp{dispatch: c, groups: c.groups, bytes: len(p.bytes)})
	p.bytes = append(p.bytes, c.bytes...)
}

// Barrier has nothing to do: a stream runs one launch after the other.
func (p *cudaPass) Barrier() {}

func (p *cudaPass) Replay(r metal.DriverRecording) {
	p.ops = append(p.ops, cudaOp{graph: r.(*cudaGraph)})
}

func (p *cudaPass) Signal(e metal.DriverEvent, value uint64) {
	p.ops = append(p.ops, cudaOp{event: e.(*cudaEvent), value: value})
}

// Commit issues the pass. A failure of a launch is kept for Wait, as the failure of a kernel is.
func (p *cudaPass) Commit() error {
	leave := p.driver.enter()
	defer leave()
	d := p.driver
	p.failed = d.do("recording an event", d.eventRecord, p.start, d.passes)
	for i := range p.ops {
		if p.failed != nil {
			break
		}
		p.failed = p.issue(&p.ops[i])
	}
	if p.failed == nil {
		p.failed = d.do("recording an event", d.eventRecord, p.end, d.passes)
	}
	p.begun = true
	return nil
}

func (p *cudaPass) issue(op *cudaOp) error {
	d := p.driver
	switch {
	case op.graph != nil:
		return d.do("replaying a recording", d.graphLaunch, op.graph.exec, d.passes)
	case op.event != nil:
		at := d.counters.at + uintptr(8*op.event.index)
		return d.do("signalling an event", d.streamWrite, d.passes, at, uintptr(op.value), 0)
	}
	c, g := op.dispatch, op.groups
	if len(c.bytes) > 0 {
		c.arguments[len(c.arguments)-1] = uintptr(unsafe.Pointer(&p.bytes[op.bytes]))
	}
	var arguments uintptr
	if len(c.arguments) > 0 {
		arguments = uintptr(unsafe.Pointer(&c.arguments[0]))
	}
	t := c.launch.Threads
	return d.do("launching a kernel", d.launch, c.pipeline.function, uintptr(g.X), uintptr(g.Y), uintptr(g.Z),
		uintptr(t.X), uintptr(t.Y), uintptr(t.Z), 0, d.passes, arguments, 0)
}

// do calls a function without allocating, with a list of arguments that the driver keeps. Only the one thread of
// metal.Driver's calls uses it.
func (d *cudaDriver) do(what string, function uintptr, args ...uintptr) error {
	n := copy(d.args[:], args)
	r, _, _ := purego.SyscallN(function, d.args[:n]...)
	if r == 0 {
		return nil
	}
	return d.result(what, r)
}

// Wait waits for the pass's last event.
func (p *cudaPass) Wait() error {
	leave := p.driver.enter()
	defer leave()
	d := p.driver
	p.times = [2]float64{}
	if p.failed != nil {
		return p.failed
	}
	if err := d.do("running a pass", d.eventWait, p.end); err != nil {
		return err
	}
	var since, took float32 // milliseconds
	err := d.call("timing a pass", d.eventElapsed, uintptr(unsafe.Pointer(&since)), d.base, p.start)
	if err == nil {
		err = d.call("timing a pass", d.eventElapsed, uintptr(unsafe.Pointer(&took)), p.start, p.end)
	}
	if err == nil {
		p.times[0] = float64(since) / 1e3
		p.times[1] = p.times[0] + float64(took)/1e3
	}
	return err
}

// Times are seconds since the driver was opened. Their difference is good to a microsecond; they themselves are float32
// milliseconds.
func (p *cudaPass) Times() (start, end float64) { return p.times[0], p.times[1] }

func (p *cudaPass) Close() {
	leave := p.driver.enter()
	defer leave()
	for _, event := range []uintptr{p.start, p.end} {
		_ = p.driver.call("freeing an event", p.driver.eventDestroy, event)
	}
}
