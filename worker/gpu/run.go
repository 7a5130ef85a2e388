package gpu

import (
	"encoding/binary"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

const (
	feedTokens = 512 // tokens that host gives to the device at once
	perPass    = 4   // tokens of one command buffer while no logits are wanted: some 10 ms, far below any watchdog's limit
)

// step is what the dispatches of a token read, in device memory; see kernels.
type step struct {
	token, position, slotIn, slotOut, table, next, fed, produced uint32
}

// runner is passes and what is in flight. Passes run in the order of their commits.
type runner struct {
	steps    [2]*metal.Pass // of tokens, in turn
	flying   [2]bool
	turn     int         // the one to use next
	copying  *metal.Pass // of everything else
	ahead    ahead
	last     *sequence // that sampled last
	one      [1]int32
	bytes    [4 * feedTokens]byte
	produced int // tokens sampled since the Step was set
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
	return deviceError(r.steps[n].Wait())
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

// setStep makes the device start with tokens of s at s.Len: the first one now, the others from the feed. Nothing is in
// flight.
func (m *Model) setStep(s *sequence, tokens []int32) error {
	buf := m.runner.bytes[:4*len(tokens)]
	for i, id := range tokens {
		binary.LittleEndian.PutUint32(buf[4*i:], uint32(id))
	}
	if err := m.scratch.feed.Buffer.Write(buf, 0); err != nil {
		return err
	}
	st := step{
		token: uint32(tokens[0]), position: uint32(s.len), slotIn: uint32(s.slots[s.current]), slotOut: uint32(s.slots[1-s.current]),
		table: uint32(int(s.slots[0]) * m.states.entries), next: 1, fed: uint32(len(tokens)),
	}
	buf = m.runner.bytes[:kernels.StepBytes]
	for i, v := range [...]uint32{st.token, st.position, st.slotIn, st.slotOut, st.table, st.next, st.fed, st.produced} {
		binary.LittleEndian.PutUint32(buf[4*i:], v)
	}
	return m.scratch.step.Buffer.Write(buf, 0)
}

// forward computes tokens, at most feedTokens, of s and writes the logits of the last rows.
func (m *Model) forward(s *sequence, tokens []int32, rows int, out []float32) error {
	if err := m.setStep(s, tokens); err != nil {
		return err
	}
	first := len(tokens) - rows // of those whose logits are wanted
	for at := 0; at < len(tokens); {
		n, t := 1, logits
		if at < first {
			n, t = min(perPass, first-at), noHead
		}
		p, err := m.begin()
		if err != nil {
			return err
		}
		for i := range n {
			r, err := m.recording(s.len+at+i, t)
			if err != nil {
				return err
			}
			p.Replay(r)
		}
		pass, err := m.commit()
		if err != nil {
			return err
		}
		at += n
		if m.opt.OnPass != nil {
			m.opt.OnPass(at)
		}
		if t == logits {
			if err := m.land(pass); err != nil {
				return err
			}
			if err := m.readLogits(0, out[(at-1-first)*m.shape.Vocab:][:m.shape.Vocab]); err != nil {
				return err
			}
		}
	}
	if err := m.rest(); err != nil {
		return err
	}
	s.advance(len(tokens))
	return nil
}

// readLogits copies the logits of one of the two buffers.
func (m *Model) readLogits(n int, out []float32) error {
	return m.scratch.logits[n].Buffer.Read(bytesOf(out), m.scratch.logits[n].Offset)
}
