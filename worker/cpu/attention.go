package cpu

import "math"

// attention is the gated full attention mixer (model specification 2.3), added to h.
func (p *pass) attention() {
	w, s, b := p.layer.Attn, p.m.shape, &p.buf
	p.project(&b.x, 0, p.rows,
		projection{w: &w.Q, dst: b.qg, stride: w.Q.Rows},
		projection{w: &w.K, dst: b.k, stride: w.K.Rows},
		projection{w: &w.V, dst: b.v, stride: w.V.Rows})
	p.perToken(turnRow, 0)
	if p.from == p.rows {
		return
	}
	b.mixed.shape(s.Heads * s.HeadDim)
	_, tokens := p.m.attendShape()
	p.m.pool.run(&p.attend, s.KVHeads*unitsOf(p.rows-p.from, tokens))
	p.perToken(sumMixed, p.from)
	p.project(&b.mixed, p.from, p.rows, projection{w: &w.O, dst: b.h, stride: s.Hidden, add: true})
}

// turnRow normalises and turns the heads of one token: queries, scaled, to q; keys and values to the cache.
func turnRow(p *pass, t int) {
	m, s, b := p.m, p.m.shape, &p.buf
	hd, half := s.HeadDim, len(m.rope)
	sin, cos := b.sin[t*half:(t+1)*half], b.cos[t*half:(t+1)*half]
	factor := float32(1 / math.Sqrt(float64(hd)))
	for h := range s.Heads {
		q := b.q[(t*s.Heads+h)*m.headStride:][:hd]
		m.kernels.rmsNorm(q, b.qg[(t*s.Heads+h)*2*hd:][:hd], p.layer.Attn.QNorm, s.NormEps)
		rotate(q, sin, cos)
		m.kernels.times(q, factor)
	}
	at := p.pos + t
	kv, row := p.seq.blocks[at/blockTokens], at%blockTokens
	for h := range s.KVHeads {
		k := b.k[(t*s.KVHeads+h)*hd:][:hd]
		m.kernels.rmsNorm(k, k, p.layer.Attn.KNorm, s.NormEps)
		rotate(k, sin, cos)
		keys := m.keys(kv, p.layer.index, h)
		for d, v := range k {
			keys[d*blockTokens+row] = v
		}
		copy(m.values(kv, p.layer.index, h)[row*m.headStride:], b.v[(t*s.KVHeads+h)*hd:][:hd])
	}
}

// rotate turns the first 2*len(sin) dims of x, dim i with dim i+len(sin).
func rotate(x, sin, cos []float32) {
	half := len(sin)
	lo, hi := x[:half], x[half:2*half]
	cos = cos[:half]
	for i, s := range sin {
		a, b, c := lo[i], hi[i], cos[i]
		lo[i] = float32(a*c) - float32(b*s)
		hi[i] = float32(b*c) + float32(a*s)
	}
}

func sumMixed(p *pass, t int) { p.buf.mixed.sumRow(t) }

// attendTask attends with the heads of one KV head for a few tokens per unit, so that keys and values are read once for
// all of them.
type attendTask struct{ p *pass }

// attendRows is how many pairs of head and token a unit should have.
const attendRows = 16

// attendShape is the number of heads that share a KV head and of tokens in a unit.
func (m *Model) attendShape() (group, tokens int) {
	group = m.shape.Heads / max(m.shape.KVHeads, 1)
	return group, max(1, attendRows/max(group, 1))
}

// growAttention makes room for attention over n positions.
func (s *scratch) growAttention(m *Model, n int) {
	group, tokens := m.attendShape()
	rows := group * tokens
	if n = blocksFor(n) * blockTokens; len(s.scores) < rows*n {
		s.scores = make([]float32, rows*2*n)
		s.heads, s.totals = make([]float32, rows*m.headStride), make([]float32, rows)
	}
}

func (k *attendTask) unit(worker, i int) {
	p := k.p
	group, tokens := p.m.attendShape()
	units := unitsOf(p.rows-p.from, tokens)
	first := p.from + i%units*tokens
	a := attendance{
		pass: p, s: &p.threads[worker], kvHead: i / units, group: group,
		first: first, rows: group * min(tokens, p.rows-first),
	}
	a.room = len(a.s.scores) / (group * tokens)
	a.score()
	a.sum()
	a.finish()
}

// attendance is the work of one unit. Its rows are the heads of the group for the first token, then for the next one; in
// scratch memory they are room floats of scores and headStride floats of query, then of output.
type attendance struct {
	*pass
	s                          *scratch
	kvHead, group, first, rows int
	room                       int
}

// positions is how many positions row r attends to.
func (a *attendance) positions(r int) int { return a.pos + a.first + r/a.group + 1 }

// score fills scores with q·k; those of positions after a row's own aren't used.
func (a *attendance) score() {
	m, s, stride := a.m, a.s, a.m.headStride
	size := a.group * stride // queries of one token
	for t := range a.rows / a.group {
		copy(s.heads[t*size:(t+1)*size], a.buf.q[((a.first+t)*m.shape.Heads+a.kvHead*a.group)*stride:])
	}
	for at := 0; at < a.positions(a.rows-1); at += blockTokens {
		for r := range a.rows {
			clear(s.scores[r*a.room+at:][:blockTokens])
		}
		keys := m.keys(a.seq.blocks[at/blockTokens], a.layer.index, a.kvHead)
		s.mix(s.scores[at:], a.room, keys, blockTokens, s.heads, stride, blockTokens, m.shape.HeadDim, a.rows)
	}
}

// sum turns scores into weights and adds the values up with them in ascending position.
func (a *attendance) sum() {
	m, s, stride := a.m, a.s, a.m.headStride
	for r := range a.rows {
		s.totals[r] = s.expShifted(s.scores[r*a.room:][:a.positions(r)])
	}
	clear(s.heads)
	for at := 0; at < a.positions(a.rows-1); at += blockTokens {
		values := m.values(a.seq.blocks[at/blockTokens], a.layer.index, a.kvHead)
		for r := 0; r < a.rows; r += 4 {
			common := max(0, min(blockTokens, a.positions(r)-at)) // positions that four rows attend to
			end := min(r+4, a.rows)
			s.mix(s.heads[r*stride:], stride, values, stride, s.scores[r*a.room+at:], a.room, stride, common, end-r)
			for j := r + 1; j < end; j++ { // and those of a later token
				if more := min(blockTokens, a.positions(j)-at) - common; more > 0 {
					s.mix(s.heads[j*stride:], stride, values[common*stride:], stride, s.scores[j*a.room+at+common:], a.room, stride, more, 1)
				}
			}
		}
	}
}

// finish divides by the sums of weights and applies the output gate.
func (a *attendance) finish() {
	shape, hd := a.m.shape, a.m.shape.HeadDim
	for r := range a.rows {
		t, head := a.first+r/a.group, a.kvHead*a.group+r%a.group
		dst := a.buf.mixed.row(t)[head*hd : (head+1)*hd]
		gate := a.buf.qg[((t*shape.Heads+head)*2+1)*hd:][:hd]
		a.s.sigmoid(dst, a.s.heads[r*a.m.headStride:][:hd], gate, 1/a.s.totals[r])
	}
}
