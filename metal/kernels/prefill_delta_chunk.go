package kernels

import (
	"errors"
	"fmt"

	"lilypad/metal"
)

const deltaChunk = 64 // tokens: CHUNK of prefill_delta_chunk.metal

// padded is how many tokens the dispatches exchange: with chunks, whole ones.
func (d *PrefillDelta) padded() int {
	if d.Chunks {
		return (d.Rows + deltaChunk - 1) / deltaChunk * deltaChunk
	}
	return d.Rows
}

// matrixBytes is the size of one of the matrices of all chunks, f32 [ValueHeads][chunks][64][64].
func (d *PrefillDelta) matrixBytes() int64 {
	if !d.Chunks {
		return 0
	}
	return 4 * int64(d.ValueHeads) * int64(d.padded()) * deltaChunk
}

// slice is how many rows of a state a threadgroup takes.
func (d *PrefillDelta) slice() int {
	if d.KeyDim > 128 { // 32 don't fit into threadgroup memory
		return 16
	}
	return 32
}

func (d *PrefillDelta) chunkParams() any {
	return struct{ Chunks, KeyHeads, ValueHeads, Layer, Layers uint32 }{uint32(d.padded() / deltaChunk), uint32(d.KeyHeads),
		uint32(d.ValueHeads), uint32(d.Layer), uint32(d.Layers)}
}

func (s *Set) chunkPipeline(d *PrefillDelta, function string) (*metal.Pipeline, error) {
	err := d.check()
	if err == nil && !d.Chunks {
		err = errors.New("prepared for the scan")
	}
	if err != nil {
		return nil, fmt.Errorf("DeltaNet over a chunk: %w", err)
	}
	return s.pipeline("prefill_delta_chunk", function, metal.Uint(0, uint32(d.KeyDim)), metal.Uint(1, uint32(d.ValueDim)),
		metal.Uint(2, uint32(d.slice())))
}

// matrices bind the inverses and what reads the writes, of which the blocks of 16 by 16 above the diagonal, 6 of 16, are
// neither written nor read.
func (d *PrefillDelta) matrices(bind func(Ref, int64) metal.Binding) (inverses, reads metal.Binding) {
	_, _, _, gates := d.parts()
	at := gates.At(d.gateBytes())
	inverses, reads = bind(at, d.matrixBytes()), bind(at.At(d.matrixBytes()), d.matrixBytes())
	for _, b := range []*metal.Binding{&inverses, &reads} {
		if b.Access == metal.In {
			b.Reads = d.matrixBytes() * 10 / 16
		} else {
			b.Writes = d.matrixBytes() * 10 / 16
		}
	}
	return inverses, reads
}

// PrefillDeltaSolve prepares the first half of the recurrence of d by chunks: what does not need the state.
func (s *Set) PrefillDeltaSolve(d PrefillDelta) (*metal.Dispatch, error) {
	p, err := s.chunkPipeline(&d, "prefill_delta_solve")
	if err != nil {
		return nil, err
	}
	queries, keys, _, gates := d.parts()
	inverses, reads := d.matrices(Ref.out)
	return s.dispatch(p, []metal.Binding{queries.in(d.keyBytes()), keys.in(d.keyBytes()), gates.inout(d.gateBytes()), inverses, reads},
		d.chunkParams(),
		metal.Size{X: d.padded() / deltaChunk, Y: d.ValueHeads, Z: 1}, metal.Line(8*metal.SimdWidth))
}

// PrefillDeltaChunks prepares the other half: the state goes through all chunks.
func (s *Set) PrefillDeltaChunks(d PrefillDelta) (*metal.Dispatch, error) {
	p, err := s.chunkPipeline(&d, "prefill_delta_chunk")
	if err != nil {
		return nil, err
	}
	bindings := d.recurrence(d.padded()) // queries, keys, values, gates, states, step
	inverses, reads := d.matrices(Ref.in)
	return s.dispatch(p, append(append(bindings[:4:4], inverses, reads), bindings[4:]...), d.chunkParams(),
		metal.Size{X: d.ValueDim / d.slice(), Y: d.ValueHeads, Z: 1}, metal.Line(8*metal.SimdWidth))
}
