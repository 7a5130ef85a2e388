package metal

import (
	"fmt"
	"time"
)

type passState int

const (
	passIdle passState = iota
	passEncoding
	passCommitted
)

// Pass is a command buffer with one concurrent compute encoder: dispatches between two barriers may run at the same time.
// One Pass serves many rounds of Begin, encoding, Commit and Wait, without allocating. The first error of a round is kept
// and returned by Commit, which then runs nothing.
type Pass struct {
	device *Device
	driver DriverPass
	state  passState
	err    error
	closed bool
}

// NewPass makes an idle pass.
func (d *Device) NewPass() (*Pass, error) {
	if err := d.check("making a pass"); err != nil {
		return nil, err
	}
	p, err := d.driver.NewPass()
	if err != nil {
		return nil, fmt.Errorf("making a pass: %w", err)
	}
	d.open++
	return &Pass{device: d, driver: p}, nil
}

// Begin starts encoding. The round before must have been waited for.
func (p *Pass) Begin() error {
	if p.closed {
		return fmt.Errorf("beginning a pass: %w", ErrClosed)
	}
	if p.state != passIdle {
		return fmt.Errorf("beginning a pass that is %s", p.state)
	}
	if err := p.driver.Begin(); err != nil {
		return fmt.Errorf("beginning a pass: %w", err)
	}
	p.state, p.err = passEncoding, nil
	return nil
}

func (s passState) String() string {
	return [...]string{"idle", "being encoded", "in flight"}[s]
}

func (p *Pass) encoding(what string) bool {
	if p.err == nil && (p.closed || p.state != passEncoding) {
		p.err = fmt.Errorf("%s in a pass that is %s", what, p.state)
	}
	return p.err == nil
}

// Dispatch encodes d.
func (p *Pass) Dispatch(d *Dispatch) {
	if !p.encoding("a dispatch") {
		return
	}
	if d.closed || d.device != p.device {
		p.err = fmt.Errorf("dispatching %s: %w", d.launch.Pipeline.name, ErrClosed)
		return
	}
	p.driver.Dispatch(d.driver)
}

// Barrier makes everything encoded later see what was written before.
func (p *Pass) Barrier() {
	if p.encoding("a barrier") {
		p.driver.Barrier()
	}
}

// Replay encodes a recording.
func (p *Pass) Replay(r *Recording) {
	if !p.encoding("a replay") {
		return
	}
	if r.closed || r.device != p.device {
		p.err = fmt.Errorf("replaying a recording: %w", ErrClosed)
		return
	}
	p.driver.Replay(r.driver)
}

// Signal sets e to value when everything encoded so far is done.
func (p *Pass) Signal(e *Event, value uint64) {
	if !p.encoding("a signal") {
		return
	}
	if e.closed || e.device != p.device {
		p.err = fmt.Errorf("signalling an event: %w", ErrClosed)
		return
	}
	p.driver.Signal(e.driver, value)
}

// Commit hands the pass to the GPU, where passes run in the order of their commits, each seeing what those before wrote.
func (p *Pass) Commit() error {
	if !p.encoding("commit") {
		if p.state == passEncoding { // end the encoder: Metal aborts when one is freed open
			p.driver.Close()
			p.closed = true
			p.device.open--
		}
		return p.err
	}
	if err := p.driver.Commit(); err != nil {
		return fmt.Errorf("committing a pass: %w", err)
	}
	p.state = passCommitted
	return nil
}

// Wait returns when the pass is done; its failure is a *PassError. Then the pass can begin again.
func (p *Pass) Wait() error {
	if p.closed || p.state != passCommitted {
		return fmt.Errorf("waiting for a pass that is %s", p.state)
	}
	err := p.driver.Wait()
	p.state = passIdle
	return err
}

// Times are the seconds at which the GPU began and ended the last round, on a clock of its own; zeros where unknown.
func (p *Pass) Times() (start, end float64) { return p.driver.Times() }

// Close frees the pass, waiting for it first when it is in flight. It is safe to call twice.
func (p *Pass) Close() {
	if p.closed {
		return
	}
	if p.state == passCommitted {
		_ = p.driver.Wait() // its failure was for whoever would have waited
	}
	p.closed = true
	p.device.open--
	p.driver.Close()
}

// Event is a counter that passes set and the CPU waits for.
type Event struct {
	device *Device
	driver DriverEvent
	closed bool
}

// NewEvent makes an event with value 0.
func (d *Device) NewEvent() (*Event, error) {
	if err := d.check("making an event"); err != nil {
		return nil, err
	}
	e, err := d.driver.NewEvent()
	if err != nil {
		return nil, fmt.Errorf("making an event: %w", err)
	}
	d.open++
	return &Event{device: d, driver: e}, nil
}

// Value is the counter's value now.
func (e *Event) Value() uint64 {
	if e.closed {
		return 0
	}
	return e.driver.Value()
}

// Wait waits until the counter has reached value; a timeout is an error.
func (e *Event) Wait(value uint64, timeout time.Duration) error {
	if e.closed {
		return fmt.Errorf("waiting for an event: %w", ErrClosed)
	}
	if !e.driver.Wait(value, timeout) {
		return fmt.Errorf("waiting for an event: at %d after %v, want %d", e.driver.Value(), timeout, value)
	}
	return nil
}

// Close frees the event. It is safe to call twice.
func (e *Event) Close() {
	if !e.closed {
		e.closed = true
		e.device.open--
		e.driver.Close()
	}
}
