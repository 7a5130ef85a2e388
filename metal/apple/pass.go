package apple

import (
	"errors"
	"fmt"

	"lilypad/metal"
)

const (
	dispatchConcurrent = 1 // MTLDispatchTypeConcurrent
	statusCompleted    = 4 // MTLCommandBufferStatusCompleted
)

// pass implements metal.DriverPass. Its command buffer holds no references to buffers and pipelines: package metal's
// rules keep those open. Command buffer and encoder are borrowed by Metal's naming, so the pass retains them.
type pass struct {
	d       *driver
	encoder encoder
	command uintptr // MTLCommandBuffer: of this round while encoding and in flight, else of the last one
	pool    uintptr // autorelease pool of the encoding, 0 outside
	err     error   // of the encoding
}

func (d *driver) NewPass() (metal.DriverPass, error) {
	return &pass{d: d, encoder: encoder{r: d.r}}, nil
}

func (p *pass) Begin() error {
	if err := p.d.here(); err != nil {
		return err
	}
	r := p.d.r
	r.release(p.command)
	p.command, p.err = 0, nil
	p.pool = r.pool()
	p.d.residency.settle(r)
	if p.command = r.retain(r.send(p.d.queue, selCommandBuffer)); p.command == 0 {
		p.leave()
		return errors.New("the queue gives no command buffer")
	}
	if !p.open() {
		p.leave()
		return p.err
	}
	return nil
}

// open makes an encoder, where there is none, that begins after all encoders before it: buffers are untracked, so
// nothing else orders passes, nor what comes before and after a signal.
func (p *pass) open() bool {
	if p.encoder.object != 0 {
		return true
	}
	r := p.d.r
	p.encoder.object = r.retain(r.send(p.command, selComputeEncoder, dispatchConcurrent))
	p.encoder.pipeline = 0
	if p.encoder.object == 0 {
		if p.err == nil {
			p.err = errors.New("the command buffer gives no encoder")
		}
		return false
	}
	r.send(p.encoder.object, selWaitForFence, p.d.fence)
	return true
}

// end ends the encoder, if there is one: Metal aborts the process when one is freed before.
func (p *pass) end() {
	if p.encoder.object == 0 {
		return
	}
	r := p.d.r
	r.send(p.encoder.object, selUpdateFence, p.d.fence)
	r.send(p.encoder.object, selEndEncoding)
	r.release(p.encoder.object)
	p.encoder.object = 0
}

// leave ends the encoding.
func (p *pass) leave() {
	p.end()
	if p.pool != 0 {
		p.d.r.drain(p.pool)
		p.pool = 0
	}
}

func (p *pass) Dispatch(d metal.DriverDispatch) {
	if p.open() {
		p.encoder.dispatch(&d.(*dispatch).launch)
	}
}

func (p *pass) Barrier() {
	if p.open() {
		p.encoder.barrier()
	}
}

func (p *pass) Replay(r metal.DriverRecording) {
	if p.open() {
		p.encoder.replay(r.(recording))
	}
}

// Signal belongs to the command buffer, between two encoders. The next dispatch opens the second.
func (p *pass) Signal(e metal.DriverEvent, value uint64) {
	p.end()
	p.d.r.send(p.command, selEncodeSignalEvent, e.(*event).object, uintptr(value))
}

func (p *pass) Commit() error {
	if err := p.d.here(); err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	p.end()
	p.d.r.send(p.command, selCommit)
	p.leave()
	return nil
}

// Wait has no limit of its own: the system ends what runs for too long, and the supervisor watches the worker.
func (p *pass) Wait() error {
	if err := p.d.here(); err != nil {
		return err
	}
	r := p.d.r
	defer r.drain(r.pool())
	r.send(p.command, selWaitUntilCompleted)
	status := r.send(p.command, selStatus)
	if status == statusCompleted {
		return nil
	}
	fault := r.send(p.command, selError)
	if fault == 0 {
		return &metal.PassError{Failure: metal.Failed, Text: fmt.Sprintf("command buffer with status %d and no error", status)}
	}
	text, code := r.describe(fault), int(r.send(fault, selCode))
	return &metal.PassError{Failure: classify(text, r.text(r.send(fault, selDomain)), code), Code: code, Text: text}
}

func (p *pass) Times() (start, end float64) {
	if p.command == 0 {
		return 0, 0
	}
	r := p.d.r
	return r.double(p.command, r.selectors[selGPUStartTime]), r.double(p.command, r.selectors[selGPUEndTime])
}

func (p *pass) Close() {
	p.leave()
	p.d.r.release(p.command)
	p.command = 0
}
