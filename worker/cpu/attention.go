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
	p.m.pool.run(&p.attend, s.Heads*unitsOf(p.rows-p.from, attendRows))
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
		rmsNorm(q, b.qg[(t*s.Heads+h)*2*hd:][:hd], p.layer.Attn.QNorm, s.NormEps)
		rotate(q, sin, cos)
		scale(q, factor)
	}
	at := p.pos + t
	kv := p.seq.blocks[at/blockTokens]
	row := at % blockTokens * m.headStride
	for h := range s.KVHeads {
		k := m.keys(kv, p.layer.index, h)[row:][:hd]
		rmsNorm(k, b.k[(t*s.KVHeads+h)*hd:][:hd], p.layer.Attn.KNorm, s.NormEps)
		rotate(k, sin, cos)
		copy(m.values(kv, p.layer.index, h)[row:], b.v[(t*s.KVHeads+h)*hd:][:hd])
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

// attendTask attends with one head of up to attendRows tokens per unit.
type attendTask struct{ p *pass }

const attendRows = 4

func (k *attendTask) unit(worker, i int) {
	p := k.p
	units := unitsOf(p.rows-p.from, attendRows)
	head, first := i/units, p.from+i%units*attendRows
	n := min(attendRows, p.rows-first)
	s := &p.threads[worker]
	room := len(s.scores) / attendRows
	if n == attendRows {
		p.scoreFour(s.scores, room, head, first)
	} else {
		for t := range n {
			p.scoreOne(s.scores[t*room:], head, first+t)
		}
	}
	for t := range n {
		p.mixHead(s.scores[t*room:], head, first+t)
	}
}

func (p *pass) queries(head, t int) []block32 {
	return blocks[block32](p.buf.q[(t*p.m.shape.Heads+head)*p.m.headStride:][:p.m.headStride])
}

func (p *pass) kvHead(head int) int { return head / (p.m.shape.Heads / p.m.shape.KVHeads) }

// scoreOne fills scores with q·k of one token and every position up to its own.
func (p *pass) scoreOne(scores []float32, head, t int) {
	q := p.queries(head, t)
	n, per := p.pos+t+1, len(q)
	for at := 0; at < n; at += blockTokens {
		k := blocks[block32](p.m.keys(p.seq.blocks[at/blockTokens], p.layer.index, p.kvHead(head)))
		for i := 0; i < min(blockTokens, n-at); i += 4 { // the last rows may be no keys yet: their scores aren't used
			y := dotTile4(k[i*per:(i+1)*per], k[(i+1)*per:(i+2)*per], k[(i+2)*per:(i+3)*per], k[(i+3)*per:(i+4)*per], q)
			o := scores[at+i : at+i+4]
			o[0], o[1], o[2], o[3] = y.a, y.b, y.c, y.d
		}
	}
}

// scoreFour is scoreOne for four tokens from t on; scores of the tokens are room apart. A few are computed for positions
// after a token's own and aren't used.
func (p *pass) scoreFour(scores []float32, room, head, t int) {
	q0, q1, q2, q3 := p.queries(head, t), p.queries(head, t+1), p.queries(head, t+2), p.queries(head, t+3)
	s0, s1, s2, s3 := scores[:room], scores[room:2*room], scores[2*room:3*room], scores[3*room:]
	n, per := p.pos+t+4, len(q0)
	for at := 0; at < n; at += blockTokens {
		k := blocks[block32](p.m.keys(p.seq.blocks[at/blockTokens], p.layer.index, p.kvHead(head)))
		for i := range min(blockTokens, n-at) {
			y := dotTile4(q0, q1, q2, q3, k[i*per:(i+1)*per])
			s0[at+i], s1[at+i], s2[at+i], s3[at+i] = y.a, y.b, y.c, y.d
		}
	}
}

// mixHead turns the scores of one token into weights, sums the values with them in ascending position, and applies the
// output gate.
func (p *pass) mixHead(scores []float32, head, t int) {
	s, hd := p.m.shape, p.m.shape.HeadDim
	n := p.pos + t + 1
	scores = scores[:n]
	total := expShifted(scores)
	o := p.buf.mixed.row(t)[head*hd : (head+1)*hd]
	clear(o)
	for at := 0; at < n; at += blockTokens {
		v := p.m.values(p.seq.blocks[at/blockTokens], p.layer.index, p.kvHead(head))
		mixValues(o, v, p.m.headStride, scores[at:min(at+blockTokens, n)])
	}
	gate := p.buf.qg[((t*s.Heads+head)*2+1)*hd:][:hd]
	for i, g := range gate {
		o[i] = o[i] / total * sigmoid(g)
	}
}

// mixValues is o += the sum of weights[i] times row i of v, in ascending i.
func mixValues(o, v []float32, stride int, weights []float32) {
	i, n := 0, len(o)
	for ; i+4 <= len(weights); i += 4 {
		addScaled4(o, v[i*stride:][:n], v[(i+1)*stride:][:n], v[(i+2)*stride:][:n], v[(i+3)*stride:][:n],
			weights[i], weights[i+1], weights[i+2], weights[i+3])
	}
	for ; i < len(weights); i++ {
		addScaled(o, v[i*stride:][:n], weights[i])
	}
}
