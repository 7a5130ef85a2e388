package gpu

import (
	"fmt"

	"lilypad/metal"
	"lilypad/metal/kernels"
)

// chunk is the dispatches that compute rows tokens at once, all of one sequence, up to the residual of the last layer.
// They read position and state slots from the Step in device memory, as those of a token do.
type chunk struct {
	rows int
	ops  []op
}

// mostChunks is how many chunks are kept: the full one, and some ends of prompts.
const mostChunks = 4

// chunkOf returns the dispatches for rows tokens that bring their sequence to length. Those kept from before declare the
// reads of the length that they were made for.
func (m *Model) chunkOf(rows, length int) (*chunk, error) {
	for _, c := range m.chunks {
		if c.rows == rows {
			return c, nil
		}
	}
	c, err := m.newChunkOps(rows, length)
	if err != nil {
		return nil, err
	}
	if len(m.chunks) == mostChunks {
		closeOps(m.chunks[0].ops)
		m.chunks = m.chunks[1:]
	}
	m.chunks = append(m.chunks, c)
	return c, nil
}

func (m *Model) newChunkOps(rows, length int) (*chunk, error) {
	b := rowsBuilder{builder: builder{m: m}, c: &m.chunk, rows: rows, length: length}
	b.layers()
	if b.err != nil {
		b.close()
		return nil, fmt.Errorf("a chunk of %d tokens: %w", rows, b.err)
	}
	return &chunk{rows, b.ops}, nil
}

// head makes the dispatches for the logits of n rows, at most headRows, of a chunk.
func (m *Model) head(first, n int) ([]op, error) {
	b := rowsBuilder{builder: builder{m: m}, c: &m.chunk, rows: n}
	b.layer = len(m.weights.layers)
	norm := b.normOf(m.weights.norm)
	norm.H = norm.H.At(4 * int64(first) * int64(m.shape.Hidden))
	norm.Exact = &b.c.exact
	b.norm(norm)
	b.barrier()
	b.linear(kernels.LinearRows{W: m.weights.head, X: b.c.exact, XType: kernels.F32, Count: n, Out: b.c.logits, OutType: kernels.F32})
	if b.err != nil {
		b.close()
		return nil, b.err
	}
	return b.ops, nil
}

// rowsBuilder makes the dispatches of a chunk.
type rowsBuilder struct {
	builder
	c            *chunkMemory
	rows, length int
}

// dispatch appends what make makes of spec.
func dispatch[T any](b *rowsBuilder, spec T, prepare func(T) (*metal.Dispatch, error)) {
	if b.err == nil {
		d, err := prepare(planted(&b.builder, spec))
		b.add(spec, d, err)
	}
}

func (b *rowsBuilder) linear(l kernels.LinearRows) { dispatch(b, l, b.m.kernels.LinearRows) }
func (b *rowsBuilder) norm(n kernels.NormRows)     { dispatch(b, n, b.m.kernels.NormRows) }

// normOf is the norm of the residual by a gain.
func (b *rowsBuilder) normOf(gain kernels.Ref) kernels.NormRows {
	s := b.m.shape
	return kernels.NormRows{H: b.c.h, Count: b.rows, Cols: s.Hidden, Gain: gain, Eps: s.NormEps, X: b.c.x}
}

// layers adds embedding and all layers. Each leaves the residual, and x normed for the next.
func (b *rowsBuilder) layers() {
	m := b.m
	b.layer = -1
	dispatch(b, kernels.EmbedRows{W: m.weights.embed, IDs: b.c.ids, Count: b.rows, H: b.c.h}, m.kernels.EmbedRows)
	b.barrier()
	b.norm(b.normOf(m.weights.layers[0].inputGain))
	for i := range m.weights.layers {
		l := &m.weights.layers[i]
		b.layer = i
		b.barrier()
		if l.attn != nil {
			b.attention(l)
		} else {
			b.delta(l)
		}
		next := m.weights.norm
		if i+1 < len(m.weights.layers) {
			next = m.weights.layers[i+1].inputGain
		}
		post := b.normOf(l.postGain)
		if l.moe != nil {
			post.Exact = &b.c.exact
		}
		b.barrier()
		b.norm(post)
		b.barrier()
		if l.moe != nil {
			b.moe(l.moe, next)
		} else {
			b.mlp(l.mlp, next)
		}
	}
}

// project multiplies x by all parts of p, in one level: f32 [rows][p.width].
func (b *rowsBuilder) project(p *projection, x kernels.Ref, kind kernels.Type, out kernels.Ref) {
	for _, part := range p.parts {
		b.linear(kernels.LinearRows{
			W: part.matrix, X: x, XType: kind, Count: b.rows, Out: out.At(4 * int64(part.first)), OutType: kernels.F32, Stride: p.width,
		})
	}
}
