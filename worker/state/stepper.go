package state

import "lilypad/protocol"

// Stepper is a Sequence whose backend samples, so that a token need not wait for the host.
type Stepper interface {
	Sequence
	// Step computes token, as Forward does of one, and returns the token that p chooses at the new Len. The choice is the
	// same as package sample's of the same logits. A negative id says that the host must choose: then logits, fp32
	// [vocab], are filled. Errors are as Forward's, and of logits that are no numbers.
	Step(token int32, p protocol.Sampling, logits []float32) (int32, error)
}

// CanStep says whether the backend samples.
func (l *Lease) CanStep() bool {
	_, ok := l.seq.(Stepper)
	return ok
}

// Step is Decode and a choice, on a backend that samples; see Stepper.
func (l *Lease) Step(token int32, p protocol.Sampling, logits []float32) (int32, error) {
	if err := l.store.making(func() error { return l.seq.Grow(1) }); err != nil {
		return -1, err
	}
	id, err := l.seq.(Stepper).Step(token, p, logits)
	if err != nil {
		l.broken = true
		return -1, err
	}
	l.tokens = append(l.tokens, token)
	l.schedule = Append(l.schedule, protocol.Segment{Kind: protocol.Decode, N: 1})
	return id, nil
}
