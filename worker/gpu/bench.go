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
	Flops      int64 // of products of matrices and of attention, a multiplication and an addition being two; else 0
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
	return s.times(ops, rounds)
}

// ChunkTimes is KernelTimes for the next n tokens at once, at most Options.Chunk, without the head.
func (s *Placed) ChunkTimes(n, rounds int) ([]KernelTime, error) {
	m := s.m
	if err := s.Grow(n); err != nil {
		return nil, err
	}
	if room, err := m.chunkRoom(n); err != nil || room < n {
		return nil, fmt.Errorf("room for %d of %d tokens: %w", room, n, err)
	}
	if err := m.prefillChunk(s.sequence, someIDs(n, m.shape.Vocab), nil); err != nil { // leaves rows of experts, and what kernels meet
		return nil, err
	}
	c, err := m.newChunkOps(n, s.len+n)
	if err != nil {
		return nil, err
	}
	defer closeOps(c.ops)
	return s.times(c.ops, rounds)
}

// Prompt computes n tokens as a prompt's, with the logits of the last one, and says how long that took.
func (s *Placed) Prompt(n int) (time.Duration, error) {
	logits := make([]float32, s.m.shape.Vocab)
	ids := someIDs(n, s.m.shape.Vocab)
	start := time.Now()
	err := s.Forward(ids, 1, logits)
	return time.Since(start), err
}

// someIDs is n ids, always the same.
func someIDs(n, vocab int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(n), 4))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}

// times runs ops by kind, in the order in which the kinds come.
func (s *Placed) times(ops []op, rounds int) ([]KernelTime, error) {
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
	switch l := o.spec.(type) {
	case kernels.Linear:
		return fmt.Sprintf("%s %dx%d", name, l.W.Rows, l.W.Cols)
	case kernels.LinearRows:
		return fmt.Sprintf("%s %dx%d", name, l.W.Rows, l.W.Cols)
	}
	return name
}

// flops is the arithmetic of o that is worth counting.
func (o *op) flops() int64 {
	product := func(m kernels.Matrix, n int) int64 { return 2 * int64(m.Rows) * int64(m.Cols) * int64(n) }
	switch l := o.spec.(type) {
	case kernels.LinearRows:
		return product(l.W, l.Count)
	case kernels.ExpertsUpRows:
		return product(l.Experts.GateUp, l.Grouped.Count*l.Grouped.TopK)
	case kernels.ExpertsDownRows:
		return product(l.Experts.Down, l.Grouped.Count*l.Grouped.TopK)
	case kernels.PrefillAttention:
		pairs := int64(l.Rows)*int64(l.MaxLength-l.Rows) + int64(l.Rows)*int64(l.Rows+1)/2
		return 4 * pairs * int64(l.Heads*l.HeadDim)
	}
	return 0
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
		t.Flops += ops[i].flops()
	}
	r, err := m.device.NewRecording(sequenceOf(ops))
	if err != nil {
		return t, err
	}
	defer r.Close()
	for _, n := range []int{1, rounds} {
		if t.Time, err = s.timeRecording(r, n); err != nil {
			return t, err
		}
	}
	return t, nil
}

// timeRecording runs r n times from where s is and says how long one takes.
func (s *Placed) timeRecording(r *metal.Recording, n int) (time.Duration, error) {
	m := s.m
	if err := m.rest(); err != nil {
		return 0, err
	}
	if err := m.setStep(s.sequence, 0); err != nil {
		return 0, err
	}
	p, err := m.begin()
	if err != nil {
		return 0, err
	}
	for range n {
		p.Replay(r)
	}
	start := time.Now()
	pass, err := m.commit()
	if err != nil {
		return 0, err
	}
	if err := m.land(pass); err != nil {
		return 0, err
	}
	took := time.Since(start) / time.Duration(n)
	if from, to := p.Times(); to > from {
		took = time.Duration((to - from) / float64(n) * 1e9)
	}
	return took, nil
}
