package metal

import (
	"errors"
	"fmt"
)

type passState int

const (
	passIdle passState = iota
	passEncoding
	passCommitted
	passClosed
)

func (s passState) String() string {
	return [...]string{"idle", "being encoded", "in flight", "closed"}[s]
}

// Pass is a command buffer with one concurrent compute encoder: dispatches between two barriers may run at the same time.
// One Pass serves many rounds of Begin, encoding, Commit and Wait, without allocating. Of a device's passes one at a time
// is encoded, while any number is in flight.
//
// The first error of a round is kept and returned by Commit, which then runs nothing and closes the pass.
type Pass struct {
	device *Device
	driver DriverPass
	state  passState
	err    error
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

// Begin starts encoding. The round before must have been waited for, and no other pass of the device be in encoding.
func (p *Pass) Begin() error {
	if p.err != nil { // something was encoded outside a round, and would be missing without a word
		err := p.err
		p.err = nil
		return fmt.Errorf("beginning a pass: %w", err)
	}
	if p.state != passIdle {
		return fmt.Errorf("beginning a pass: %w", p.wrongState())
	}
	if p.device.encoding != nil {
		return errors.New("beginning a pass: another of this GPU is being encoded")
	}
	if err := p.driver.Begin(); err != nil {
		return fmt.Errorf("beginning a pass: %w", err)
	}
	p.state, p.device.encoding = passEncoding, p
	return nil
}

func (p *Pass) wrongState() error {
	if p.state == passClosed {
		return ErrClosed
	}
	return fmt.Errorf("it is %v", p.state)
}

// encoding tells whether something can be encoded, and keeps the reason why not.
func (p *Pass) encoding(what string) bool {
	if p.err == nil && p.state != passEncoding {
		p.err = fmt.Errorf("%s in a pass: %w", what, p.wrongState())
	}
	return p.err == nil
}

// Dispatch encodes d.
func (p *Pass) Dispatch(d *Dispatch) {
	if !p.encoding("a dispatch") {
		return
	}
	if err := d.usable(p.device); err != nil {
		p.err = fmt.Errorf("encoding a dispatch: %w", err)
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
	if err := r.usable(p.device); err != nil {
		p.err = fmt.Errorf("encoding a recording: %w", err)
		return
	}
	p.driver.Replay(r.driver)
}

// Signal sets e to value when everything encoded so far is done.
func (p *Pass) Signal(e *Event, value uint64) {
	if !p.encoding("a signal") {
		return
	}
	switch {
	case e == nil || e.device != p.device:
		p.err = errors.New("encoding a signal: its event is missing or another device's")
	case e.closed:
		p.err = fmt.Errorf("encoding a signal: event %w", ErrClosed)
	default:
		p.driver.Signal(e.driver, value)
	}
}

// Commit hands the pass to the GPU, where passes run in the order of their commits, each seeing what those before wrote.
// After an error the pass is closed.
func (p *Pass) Commit() error {
	if !p.encoding("commit") {
		err := p.err
		p.err = nil
		if p.state == passEncoding {
			p.close()
		}
		return err
	}
	if err := p.driver.Commit(); err != nil {
		p.close()
		return fmt.Errorf("committing a pass: %w", err)
	}
	p.state, p.device.encoding = passCommitted, nil
	return nil
}

// Wait returns when the pass is done; its failure is a *PassError. Then the pass can begin again.
func (p *Pass) Wait() error {
	if p.state != passCommitted {
		return fmt.Errorf("waiting for a pass: %w", p.wrongState())
	}
	err := p.driver.Wait()
	p.state = passIdle
	return err
}

// Times are the seconds at which the GPU began and ended the last round, on a clock of its own; zeros where unknown.
func (p *Pass) Times() (start, end float64) {
	if p.state == passClosed {
		return 0, 0
	}
	return p.driver.Times()
}

// Close frees the pass: it waits for one in flight and drops what was encoded and not committed. It is safe to call twice.
func (p *Pass) Close() {
	if p.state == passCommitted {
		_ = p.driver.Wait() // its failure was for whoever would have waited
	}
	if p.state != passClosed {
		p.close()
	}
}

func (p *Pass) close() {
	if p.device.encoding == p {
		p.device.encoding = nil
	}
	p.state = passClosed
	p.device.forget()
	p.driver.Close()
}
