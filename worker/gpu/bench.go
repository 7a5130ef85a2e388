package gpu

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

// Place makes a sequence of n tokens that were never computed: its keys and values are random and finite, its states
// zero. It is for measurements.
func (m *Model) Place(n int) (*Placed, error) {
	s, err := m.newSequence(0)
	if err != nil {
		return nil, err
	}
	if err := s.Grow(n); err != nil {
		s.Close()
		return nil, err
	}
	rng := rand.NewPCG(uint64(n), 3)
	data := make([]byte, m.states.kv.each)
	for i := range data {
		data[i] = byte(rng.Uint64())
		if i%2 == 1 {
			data[i] = data[i]&0x80 | 0x3e // a bf16 from 1/8 to 1/2, or its negative
		}
	}
	for _, b := range s.blocks {
		if err := m.states.kv.buffer.Write(data, m.states.kv.at(b).Offset); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.len = n
	return &Placed{s}, nil
}

// Placed is a sequence for measurements.
type Placed struct{ *sequence }

// KernelTime is what all dispatches of one kind took for a token, run one after the other.
type KernelTime struct {
	Name       string
	Dispatches int
	Bytes      int64 // that they read and write
	Time       time.Duration
}

// KernelTimes times the dispatches of the next token of s by kind, rounds times each; s is good for nothing else
// afterwards.
func (s *Placed) KernelTimes(rounds int) ([]KernelTime, error) {
	m := s.m
	if err := s.Grow(rounds + 1); err != nil { // samplers advance the position
		return nil, err
	}
	ops, err := m.tokenOps(s.len, sampled)
	if err != nil {
		return nil, err
	}
	var kinds []string
	byKind := map[string][]op{}
	for _, o := range ops {
		k := o.kind()
		if byKind[k] == nil {
			kinds = append(kinds, k)
		}
		o.level = true
		byKind[k] = append(byKind[k], o)
	}
	var times []KernelTime
	for _, k := range kinds {
		t, err := s.timeOps(byKind[k], rounds)
		if err != nil {
			return nil, err
		}
		t.Name = k
		times = append(times, t)
	}
	return times, nil
}

// kind names what o does, with the shape where one kernel serves several.
func (o *op) kind() string {
	name := o.dispatch.Launch().Pipeline.Name()
	if l, ok := o.spec.(kernels.Linear); ok {
		return fmt.Sprintf("%s %dx%d", name, l.W.Rows, l.W.Cols)
	}
	return name
}

// bytes is what o reads and writes.
func (o *op) bytes() int64 {
	n := int64(0)
	for _, b := range o.dispatch.Launch().Buffers {
		if b.Access&metal.In != 0 {
			n += max(b.Reads, 0)
		}
		if b.Access&metal.Out != 0 {
			n += max(b.Writes, 0)
		}
	}
	return n
}

// timeOps runs ops rounds times after one round that warms up.
func (s *Placed) timeOps(ops []op, rounds int) (KernelTime, error) {
	m := s.m
	t := KernelTime{Dispatches: len(ops)}
	for i := range ops {
		t.Bytes += ops[i].bytes()
	}
	r, err := m.device.NewRecording(sequenceOf(ops))
	if err != nil {
		return t, err
	}
	defer r.Close()
	if err := m.setStep(s.sequence, 0); err != nil {
		return t, err
	}
	for _, n := range []int{1, rounds} {
		p, err := m.begin()
		if err != nil {
			return t, err
		}
		for range n {
			p.Replay(r)
		}
		start := time.Now()
		pass, err := m.commit()
		if err != nil {
			return t, err
		}
		if err := m.land(pass); err != nil {
			return t, err
		}
		t.Time = time.Since(start) / time.Duration(n)
		if from, to := p.Times(); to > from {
			t.Time = time.Duration((to - from) / float64(n) * 1e9)
		}
	}
	return t, nil
}
