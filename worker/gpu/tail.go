package gpu

import (
	"encoding/binary"
	"math"

	"lilypad/metal/kernels"
	"lilypad/protocol"
)

// tail adds what follows the layers: head and sampler, or less.
func (b *builder) tail(t tail) {
	m, s := b.m, &b.m.scratch
	b.layer = len(m.weights.layers)
	out := s.logits[0]
	if t == sampledOdd {
		out = s.logits[1]
	}
	best := kernels.Best{Partials: s.best, Allowed: s.allowed}
	if t != noHead {
		b.barrier()
		b.linear(kernels.Linear{W: m.weights.head, X: s.gained, Norm: b.norm(), Out: out, Best: &best})
	}
	if t == noHead || t == logits {
		return
	}
	b.barrier()
	sample := kernels.Sample{
		Logits: out, Vocab: m.shape.Vocab, Allowed: s.allowed, Partials: s.best, Parts: m.kernels.BestParts(m.shape.Vocab),
		Params: s.params, Step: s.step, Results: s.results,
	}
	if b.err == nil {
		d, err := m.kernels.Sample(sample)
		b.add(sample, d, err)
	}
}

// setParams tells the device how to sample. Nothing is in flight.
func (m *Model) setParams(p protocol.Sampling) error {
	buf := m.runner.bytes[:kernels.SampleParamsBytes]
	for i, v := range [...]uint32{
		math.Float32bits(p.Temperature), uint32(p.TopK), math.Float32bits(p.TopP), math.Float32bits(p.MinP),
		uint32(p.Seed), uint32(p.Seed >> 32), p.Choice, 0,
	} {
		binary.LittleEndian.PutUint32(buf[4*i:], v)
	}
	return m.scratch.params.Buffer.Write(buf, 0)
}

// result is the n-th token sampled since the Step was set, or -1 when the host must sample it.
func (m *Model) result(n int) (int32, error) {
	buf := m.runner.bytes[:8]
	if err := m.scratch.results.Buffer.Read(buf, int64(n%kernels.Results)*kernels.ResultBytes); err != nil {
		return -1, err
	}
	id, flags := int32(binary.LittleEndian.Uint32(buf)), binary.LittleEndian.Uint32(buf[4:])
	switch {
	case flags&kernels.SampleNaN != 0:
		return -1, protocol.Errorf(protocol.CodeInternal, "sampling on the GPU: a logit is not a number")
	case flags&kernels.SampleNone != 0:
		return -1, protocol.Errorf(protocol.CodeInternal, "sampling on the GPU: none of the %d logits is above minus infinity", m.shape.Vocab)
	case flags&kernels.SampleHost != 0:
		return -1, nil
	}
	return id, nil
}

// setAllowed marks the ids that may be sampled.
func (m *Model) setAllowed() error {
	words := make([]byte, (m.shape.Vocab+31)/32*4)
	for id := range m.shape.Vocab {
		if m.opt.Allowed == nil || m.opt.Allowed(int32(id)) {
			words[id/8] |= 1 << (id % 8)
		}
	}
	return m.scratch.allowed.Buffer.Write(words, 0)
}
