package gpu

import (
	"encoding/binary"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

// step is what the dispatches of a token read, in device memory; see kernels.
type step struct {
	token, position, slotIn, slotOut, table, produced uint32
}

// runner is passes and what is in flight. Passes run in the order of their commits.
type runner struct {
	steps    [2]*metal.Pass // of tokens, in turn
	flying   [2]bool
	turn     int         // the one to use next
	copying  *metal.Pass // of everything else
	ahead    ahead
	last     *sequence // that sampled last
	bytes    [kernels.SampleParamsBytes]byte
	produced int // tokens sampled since the Step was set
	pace     pace
}

func (m *Model) newRunner() (err error) {
	r := &m.runner
	for _, p := range []**metal.Pass{&r.steps[0], &r.steps[1], &r.copying} {
		if *p, err = m.device.NewPass(); err != nil {
			return err
		}
	}
	return nil
}

// closeRunner waits for what is in flight.
func (m *Model) closeRunner() error {
	err := m.rest()
	r := &m.runner
	for _, p := range []*metal.Pass{r.steps[0], r.steps[1], r.copying} {
		if p != nil {
			p.Close()
		}
	}
	r.steps, r.copying = [2]*metal.Pass{}, nil
	return err
}

// begin starts encoding the next pass of tokens, waiting for the one before the last.
func (m *Model) begin() (*metal.Pass, error) {
	r := &m.runner
	if err := m.land(r.turn); err != nil {
		return nil, err
	}
	p := r.steps[r.turn]
	return p, p.Begin()
}

// commit hands the pass of begin to the GPU and returns its number, for land.
func (m *Model) commit() (int, error) {
	r := &m.runner
	n := r.turn
	if err := r.steps[n].Commit(); err != nil {
		return n, err
	}
	r.flying[n] = true
	r.turn = 1 - n
	return n, nil
}

// land waits for a pass, if it is in flight.
func (m *Model) land(n int) error {
	r := &m.runner
	if !r.flying[n] {
		return nil
	}
	r.flying[n] = false
	if err := r.steps[n].Wait(); err != nil {
		return deviceError(err)
	}
	start, end := r.steps[n].Times()
	r.pace.learn(n, start, end)
	return nil
}

// rest waits for everything in flight and forgets a step taken ahead.
func (m *Model) rest() error {
	r := &m.runner
	r.ahead = ahead{}
	err := m.land(r.turn) // the older one
	if e := m.land(1 - r.turn); err == nil {
		err = e
	}
	return err
}

// runNow runs dispatches at once, in one level, behind what is in flight.
func (m *Model) runNow(list ...*metal.Dispatch) error {
	p := m.runner.copying
	if err := p.Begin(); err != nil {
		return err
	}
	for _, d := range list {
		p.Dispatch(d)
	}
	if err := p.Commit(); err != nil {
		return err
	}
	return deviceError(p.Wait())
}

// setStep makes the device start with token of s at s.Len. Nothing is in flight.
func (m *Model) setStep(s *sequence, token int32) error {
	st := step{
		token: uint32(token), position: uint32(s.len), slotIn: uint32(s.slots[s.current]), slotOut: uint32(s.slots[1-s.current]),
		table: uint32(int(s.slots[0]) * m.states.entries),
	}
	buf := m.runner.bytes[:kernels.StepBytes]
	for i, v := range [...]uint32{st.token, st.position, st.slotIn, st.slotOut, st.table, st.produced} {
		binary.LittleEndian.PutUint32(buf[4*i:], v)
	}
	return m.scratch.step.Buffer.Write(buf, 0)
}

// forward computes one token of s, and its logits unless out is empty.
func (m *Model) forward(s *sequence, token int32, out []float32) error {
	if err := m.setStep(s, token); err != nil {
		return err
	}
	t := noHead
	if len(out) > 0 {
		t = logits
	}
	r, err := m.recording(s.len, t)
	if err != nil {
		return err
	}
	p, err := m.begin()
	if err != nil {
		return err
	}
	p.Replay(r)
	if _, err := m.commit(); err != nil {
		return err
	}
	if m.opt.OnPass != nil {
		m.opt.OnPass(1)
	}
	if err := m.rest(); err != nil {
		return err
	}
	if t == logits {
		if err := m.readLogits(0, out); err != nil {
			return err
		}
	}
	s.advance()
	return nil
}

// readLogits copies the logits of one of the two buffers.
func (m *Model) readLogits(n int, out []float32) error {
	return m.scratch.logits[n].Buffer.Read(bytesOf(out), m.scratch.logits[n].Offset)
}
