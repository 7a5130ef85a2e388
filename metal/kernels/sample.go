package kernels

import (
	"fmt"

	"lilypad/metal"
)

// SampleParams are the sampling parameters of a sequence in device memory: 32 bytes, little endian, written by the host
// before the first token of a request is sampled.
type SampleParams struct {
	Temperature float32 // 0 is greedy
	TopK        uint32  // 0 keeps all
	TopP        float32 // 1 or 0 keeps all
	MinP        float32 // 0 keeps all
	SeedLow     uint32  // of the seed's 64 bits
	SeedHigh    uint32
	Choice      uint32
	Unused      uint32
}

// Sizes of what Sample reads and writes.
const (
	SampleParamsBytes = 32
	ResultBytes       = 8  // of a result: the sampled id (u32) and its flags (u32)
	Results           = 64 // of the ring; result n is at n % Results
)

// Flags of a result. With any of them set the id is not the sampler's answer, though the kernels after it may use it: the
// largest logit's, or 0.
const (
	SampleNaN  = 1 << iota // an allowed logit is not a number
	SampleNone             // no allowed logit is above minus infinity
	SampleHost             // too many candidates: the host must sample this token, from the same logits
)

// Candidates is the most candidates that the kernel samples from; with more it sets SampleHost. With TopK from 1 to 256
// and four times as many tiles of 32 ids, only ties, or candidates that crowd into few tiles, can make more; else each
// logit within 17 temperatures of the largest is one.
const Candidates = 2048

const sampleThreads = 1024 // SAMPLE_THREADS of sample.metal

// Sample chooses the next token from logits, exactly as worker/sample does, for position Step.position+1; writes it to
// ring Results and advances the step.
type Sample struct {
	Logits   Ref // f32 [Vocab]
	Vocab    int
	Allowed  Ref // u32 [ceil(Vocab/32)], a bit for each id that may be sampled
	Partials Ref // {f32 logit, u32 id} [Parts]: Best of the head that wrote Logits
	Parts    int // Set.BestParts
	Params   Ref // SampleParams
	Step     Ref // Step, updated
	Results  Ref // {u32 id, u32 flags} [Results]
}

// Sample prepares c.
func (s *Set) Sample(c Sample) (*metal.Dispatch, error) {
	if c.Vocab < 1 || c.Parts != s.BestParts(c.Vocab) {
		return nil, fmt.Errorf("sampling from %d logits by %d partials: want %d", c.Vocab, c.Parts, s.BestParts(c.Vocab))
	}
	p, err := s.pipeline("sample", "sample_token")
	if err != nil {
		return nil, err
	}
	vocab := int64(c.Vocab)
	buffers := []metal.Binding{
		c.Logits.in(4 * vocab), c.Allowed.in((vocab + 31) / 32 * 4), c.Partials.in(8 * int64(c.Parts)), c.Params.in(SampleParamsBytes),
		c.Step.inout(StepBytes), c.Results.out(Results * ResultBytes),
	}
	buffers[0].Reads = 4 * min(vocab, BestRows) // at least: which tiles are opened depends on the logits
	buffers[1].Reads = 4
	buffers[3].Reads = SampleParamsBytes - 4
	buffers[4].Reads, buffers[4].Writes = StepBytes-8, StepBytes-4 // all but token and table; all but table
	buffers[5].Writes = ResultBytes
	shape := [2]uint32{uint32(c.Vocab), uint32(c.Parts)}
	return s.dispatch(p, buffers, shape, metal.Line(1), metal.Line(sampleThreads))
}
