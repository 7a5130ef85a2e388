package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"lilypad/metal/kernels"
	"lilypad/metal/kernels/fixture"
	"lilypad/metal/ref"
	"lilypad/worker/state"
)

// Bounds of a dispatch against its twin (design, section 4).
const (
	ulps     = 2    // of bf16 outputs: what goes into the cache and the window
	relative = 1e-5 // of fp32 outputs
)

// CheckChunk is Check for tokens, at most Options.Chunk, computed at once, and the logits of the last one.
func (m *Model) CheckChunk(seq state.Sequence, tokens []int32, report func(kind string, layer int, err error)) (int, error) {
	return m.chunkByTwins(seq.(*sequence), tokens, m.checkOp(report))
}

// Check computes one token of s, which this model made, dispatch by dispatch, each against its float32 twin fed the same
// inputs. It calls report with each dispatch's kind, layer (-1 before and the number of layers behind them) and
// difference, nil when they agree, and returns how many dispatches there were.
func (m *Model) Check(seq state.Sequence, token int32, report func(kind string, layer int, err error)) (int, error) {
	return m.byTwins(seq.(*sequence), token, m.checkOp(report))
}

// checkOp runs a dispatch and reports how it differs from its twin.
func (m *Model) checkOp(report func(kind string, layer int, err error)) func(c *checker, o *op) error {
	return func(c *checker, o *op) error {
		want := c.twin(o)
		if c.err == nil {
			c.err = m.runNow(o.dispatch)
		}
		if c.err == nil && m.opt.after != nil {
			c.err = m.opt.after(o)
		}
		if c.err != nil {
			return c.err
		}
		report(o.kind(), o.layer, c.compare(want))
		return c.err
	}
}

// byTwins goes through the dispatches of one token.
func (m *Model) byTwins(s *sequence, token int32, do func(c *checker, o *op) error) (int, error) {
	if err := s.Grow(1); err != nil {
		return 0, err
	}
	if err := m.rest(); err != nil {
		return 0, err
	}
	if err := m.setStep(s, token); err != nil {
		return 0, err
	}
	ops, err := m.tokenOps(s.len, sampled)
	if err != nil {
		return 0, err
	}
	n, err := m.eachOp(ops, do)
	if err == nil {
		s.advance()
	}
	return n, err
}

// chunkByTwins goes through the dispatches of a chunk and those of the logits of its last token.
func (m *Model) chunkByTwins(s *sequence, tokens []int32, do func(c *checker, o *op) error) (int, error) {
	if err := s.Grow(len(tokens)); err != nil {
		return 0, err
	}
	if err := m.rest(); err != nil {
		return 0, err
	}
	if n, err := m.chunkRoom(len(tokens)); err != nil || n < len(tokens) {
		return 0, fmt.Errorf("room for %d of %d tokens: %w", n, len(tokens), err)
	}
	if err := m.setChunk(s, tokens); err != nil {
		return 0, err
	}
	c, err := m.newChunkOps(len(tokens), s.len+len(tokens))
	if err != nil {
		return 0, err
	}
	defer closeOps(c.ops)
	n, err := m.eachOp(c.ops, do)
	if err != nil {
		return n, err
	}
	s.advanceChunk(len(tokens))
	head, err := m.head(len(tokens)-1, 1)
	if err != nil {
		return n, err
	}
	defer closeOps(head)
	more, err := m.eachOp(head, do)
	return n + more, err
}

// eachOp goes through dispatches.
func (m *Model) eachOp(ops []op, do func(c *checker, o *op) error) (int, error) {
	if m.decoded == nil {
		m.decoded, m.rounded = map[matrixKey]ref.Matrix{}, map[matrixKey]ref.Matrix{}
	}
	c := checker{m: m}
	for i := range ops {
		if err := do(&c, &ops[i]); err != nil {
			return i, fmt.Errorf("%s: %w", ops[i].kind(), err)
		}
	}
	return len(ops), nil
}

// output is what a dispatch should leave at a place: numbers of a type, or words that must be equal.
type output struct {
	name   string
	at     kernels.Ref
	floats []float32       // compared when words is nil
	bf16   bool            // floats lie there as bf16
	f16    bool            // floats lie there as f16
	scale  float32         // with either: magnitude of which numbers may be a few steps off; 0: a little of the others
	each   int             // elements of each vector of floats in lane order; 0: natural order
	words  func() []uint32 // called when floats of the same dispatch are in place
}

func bfloats(name string, at kernels.Ref, v []float32) output {
	return output{name: name, at: at, floats: v, bf16: true}
}

// operands are what matrices of chunks multiply.
func operands(name string, at kernels.Ref, v []float32) output {
	return output{name: name, at: at, floats: v, f16: true}
}

func floats(name string, at kernels.Ref, v []float32) output {
	return output{name: name, at: at, floats: v}
}

// vectors are vectors of each elements, one after the other, each in lane order.
func vectors(name string, at kernels.Ref, v []float32, each int) output {
	return output{name: name, at: at, floats: v, each: each}
}

func vector(name string, at kernels.Ref, v []float32) output { return vectors(name, at, v, len(v)) }

func words(name string, at kernels.Ref, v []uint32) output {
	return output{name: name, at: at, words: func() []uint32 { return v }}
}

// compare compares memory with all outputs of a dispatch. Numbers far below the others of their vector are sums that
// cancelled: they are held to the others' precision.
func (c *checker) compare(list []output) error {
	for _, o := range list {
		var err error
		switch {
		case o.words != nil:
			want := o.words()
			if got := c.uints(o.at, len(want)); !slices.Equal(got, want) {
				err = fmt.Errorf("%v, want %v", clipped(got), clipped(want))
			}
		case o.bf16:
			err = fixture.CompareBfloats(c.bfloats(o.at, len(o.floats)), o.floats, ulps, max(o.scale, rms(o.floats)/256))
		case o.f16:
			err = fixture.CompareHalves(c.operands(o.at, len(o.floats)), o.floats, ulps, max(o.scale, rms(o.floats)/256))
		case o.each > 0:
			err = fixture.CompareFloats(c.vectors(o.at, len(o.floats), o.each), o.floats, relative)
		default:
			err = fixture.CompareFloats(c.floats(o.at, len(o.floats)), o.floats, relative)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

func clipped(v []uint32) []uint32 { return v[:min(len(v), 16)] }

// store writes the outputs, as if the dispatch had run.
func (c *checker) store(list []output) {
	for _, o := range list {
		var data []byte
		switch {
		case o.words != nil:
			for _, u := range o.words() {
				data = binary.LittleEndian.AppendUint32(data, u)
			}
		case o.f16:
			for _, v := range o.floats {
				data = binary.LittleEndian.AppendUint16(data, ref.HalfBits(v))
			}
		case o.bf16:
			for _, v := range o.floats {
				data = binary.LittleEndian.AppendUint16(data, ref.Bfloat(v))
			}
		case o.each > 0:
			data = make([]byte, int64(len(o.floats)/o.each)*kernels.VectorBytes(o.each))
			for i, v := range o.floats {
				binary.LittleEndian.PutUint32(data[vectorPlace(i, o.each):], math.Float32bits(v))
			}
		default:
			data = append(data, bytesOf(o.floats)...)
		}
		if c.err == nil && len(data) > 0 {
			c.err = o.at.Buffer.Write(data, o.at.Offset)
		}
	}
}

// checker reads device memory and keeps the first error.
type checker struct {
	m   *Model
	err error
}

type matrixKey struct {
	kernels.Ref
	rows int
}

// twin computes what a dispatch should leave, from the memory as it is now.
func (c *checker) twin(o *op) []output {
	switch spec := o.spec.(type) {
	case kernels.Embed:
		return c.embed(spec)
	case kernels.Linear:
		return c.linear(spec)
	case kernels.Delta:
		return c.delta(spec)
	case kernels.AttentionPrep:
		return c.prepare(spec)
	case kernels.Attention:
		return c.attend(spec)
	case merge:
		return c.merge(spec.Attention)
	case kernels.Route:
		return c.route(spec)
	case kernels.ExpertsUp:
		return c.expertsUp(spec)
	case kernels.ExpertsDown:
		return c.expertsDown(spec)
	case kernels.Sample:
		return c.sample(spec)
	}
	return c.chunkTwin(o)
}

// chunkTwin is twin for the dispatches of chunks.
func (c *checker) chunkTwin(o *op) []output {
	switch spec := o.spec.(type) {
	case kernels.EmbedRows:
		return c.embedRows(spec)
	case kernels.NormRows:
		return c.normRows(spec)
	case kernels.LinearRows:
		return c.linearRows(spec)
	case deltaPrep, deltaScan: // only the third leaves what a twin knows
		return nil
	case deltaGate:
		return c.deltaChunk(spec.PrefillDelta)
	case kernels.PrefillAttentionPrep:
		return c.prepareRows(spec)
	case kernels.PrefillAttention:
		return c.attendRows(spec)
	case kernels.RouteRows:
		return c.routeRows(spec)
	case kernels.GroupRows:
		return c.groupRows(spec)
	case kernels.ExpertsUpRows:
		return c.expertsUpRows(spec)
	case kernels.ExpertsDownRows:
		return c.expertsDownRows(spec)
	case kernels.CombineRows:
		return c.combineRows(spec)
	}
	panic(fmt.Sprintf("BUG: %T has no twin", o.spec))
}

func (c *checker) bytes(r kernels.Ref, n int64) []byte {
	out := make([]byte, n)
	if c.err == nil {
		c.err = r.Buffer.Read(out, r.Offset)
	}
	return out
}

func (c *checker) uints(r kernels.Ref, n int) []uint32 {
	out, b := make([]uint32, n), c.bytes(r, int64(4*n))
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func (c *checker) floats(r kernels.Ref, n int) []float32 {
	out := make([]float32, n)
	for i, u := range c.uints(r, n) {
		out[i] = math.Float32frombits(u)
	}
	return out
}

// vectorPlace is the byte of element i of vectors of each elements in lane order, one after the other.
func vectorPlace(i, each int) int64 {
	return int64(i/each)*kernels.VectorBytes(each) + int64(4*kernels.LaneOrder(i%each))
}

// vectors reads n elements of vectors of each elements in lane order.
func (c *checker) vectors(r kernels.Ref, n, each int) []float32 {
	out, b := make([]float32, n), c.bytes(r, int64(n/each)*kernels.VectorBytes(each))
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[vectorPlace(i, each):]))
	}
	return out
}

func (c *checker) vector(r kernels.Ref, n int) []float32 { return c.vectors(r, n, n) }

func (c *checker) bfloats(r kernels.Ref, n int) []float32 { return c.shorts(r, n, ref.Float) }

// shorts reads n numbers of 16 bits.
func (c *checker) shorts(r kernels.Ref, n int, value func(uint16) float32) []float32 {
	out, b := make([]float32, n), c.bytes(r, int64(2*n))
	for i := range out {
		out[i] = value(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return out
}

// matrix reads weights back from the device; they don't change, so once.
func (c *checker) matrix(m kernels.Matrix) ref.Matrix {
	at := kernels.Ref{Buffer: m.Buffer, Offset: m.Codes}
	key := matrixKey{at, m.Rows}
	if w, ok := c.m.decoded[key]; ok {
		return w
	}
	codes := c.bytes(at, m.CodesBytes(m.Rows, m.Cols))
	number, size := []ref.Number{ref.BF16, ref.F16, ref.F32}[m.Type], m.Type.Bytes()
	var w ref.Matrix
	if m.Bits == 0 {
		w = ref.Plain(m.Rows, m.Cols, codes, int(m.RowBytes(m.Cols)), number, size)
	} else {
		pairs := c.bytes(kernels.Ref{Buffer: m.Buffer, Offset: m.Pairs}, m.PairsBytes(m.Rows, m.Cols))
		w = ref.Affine(m.Rows, m.Cols, m.Bits, m.Group, codes, int(m.RowBytes(m.Cols)), pairs, int(m.PairRowBytes(m.Cols)), number, size)
	}
	c.m.decoded[key] = w
	return w
}

// rounded is matrix as chunks rebuild it.
func (c *checker) rounded(m kernels.Matrix) ref.Matrix {
	key := matrixKey{kernels.Ref{Buffer: m.Buffer, Offset: m.Codes}, m.Rows}
	w, ok := c.m.rounded[key]
	if !ok {
		w = c.matrix(m).Rounded()
		c.m.rounded[key] = w
	}
	return w
}

// operands reads what matrices of chunks multiply.
func (c *checker) operands(r kernels.Ref, n int) []float32 { return c.shorts(r, n, ref.Half) }

// inverse is what consumers of a norm multiply by.
func (c *checker) inverse(n kernels.Norm) float32 {
	return ref.InverseRMS(c.floats(n.Squares, n.Parts), c.m.shape.Hidden, n.Eps)
}

func rms(v []float32) float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return float32(math.Sqrt(sum / float64(max(len(v), 1))))
}
