package gpu

import (
	"lilypad/protocol"
	"lilypad/worker/state"
)

// Step computes token and samples the one after it on the GPU; see state.Stepper. When one sequence samples twice in a
// row, the step after the asked one is started too, with the token that the GPU sampled, so that the GPU doesn't wait
// for the host: it writes only the slot of the state before last, and keys and values beyond Len. Whatever happens next
// but the very step that was guessed discards it.
func (s *sequence) Step(token int32, p protocol.Sampling, out []float32) (int32, error) {
	m := s.m
	if s.closed {
		panic("BUG: Step on a closed sequence")
	}
	if err := state.CheckForward([]int32{token}, s.len, 1, out, m.shape.Vocab); err != nil {
		return -1, err
	}
	again := m.runner.last == s
	m.runner.last = s
	if err := s.Grow(1); err != nil {
		return -1, err
	}
	again = again && s.Grow(2) == nil // whether the next token fits is seen when it is asked for
	flight := m.runner.ahead
	if flight.seq != s || flight.token != token || flight.sampling != p {
		var err error
		if flight, err = m.first(s, token, p); err != nil {
			return -1, err
		}
	}
	m.runner.ahead = ahead{}
	var next ahead
	if again {
		var err error
		if next, err = m.launch(s, s.len+1, p); err != nil {
			return -1, err
		}
	}
	if err := m.land(flight.pass); err != nil {
		return -1, err
	}
	id, err := m.result(flight.result)
	if err != nil {
		return -1, err
	}
	s.advance()
	if id >= 0 {
		next.token = id
		m.runner.ahead = next
		return id, nil
	}
	// The device leaves this one to the host. What runs ahead has the wrong token, but another buffer for its logits.
	if err := m.rest(); err != nil {
		return -1, err
	}
	return -1, m.readLogits(flight.result&1, out)
}

// first starts a step of s with a token from the host.
func (m *Model) first(s *sequence, token int32, p protocol.Sampling) (ahead, error) {
	if err := m.rest(); err != nil {
		return ahead{}, err
	}
	if err := m.setStep(s, token); err != nil {
		return ahead{}, err
	}
	if err := m.setParams(p); err != nil {
		return ahead{}, err
	}
	m.runner.produced = 0
	return m.launch(s, s.len, p)
}

// launch starts the step at position; the token is in the device's Step.
func (m *Model) launch(s *sequence, position int, p protocol.Sampling) (ahead, error) {
	r, err := m.recording(position, sampled+tail(m.runner.produced&1))
	if err != nil {
		return ahead{}, err
	}
	pass, err := m.begin()
	if err != nil {
		return ahead{}, err
	}
	pass.Replay(r)
	n, err := m.commit()
	if err != nil {
		return ahead{}, err
	}
	at := m.runner.produced
	m.runner.produced++
	return ahead{seq: s, sampling: p, pass: n, result: at}, nil
}

// ahead is a step in flight: the one asked for, or, in the runner, the one after it that nobody has asked for yet.
type ahead struct {
	seq      *sequence // nil: there is none
	token    int32
	sampling protocol.Sampling
	pass     int
	result   int // number of its sampled token since the Step was set
}
