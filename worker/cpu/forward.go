package cpu

import (
	"math"
)

// maxRows is the most tokens that one pass over the layers takes; longer chunks are cut.
const maxRows = 512

// pass is one run of some tokens of a sequence through all layers, and the memory for it. A Model has one, since all its
// computing happens on one thread and the pool.
type pass struct {
	m       *Model
	buf     buffers
	threads []scratch // by worker
	trace   func(layer int, h []float32)

	seq  *sequence
	pos  int // of the first token
	rows int // tokens
	from int // first row that anybody wants beyond the mixer state of the layer at hand

	layer *layer

	// One of each task, so that running one allocates nothing.
	linear  linearTask
	tokens  tokenTask
	attend  attendTask
	recur   recurTask
	expand  expandTask
	combine combineTask
}

func newPass(m *Model) *pass {
	p := &pass{m: m, threads: make([]scratch, m.pool.size)}
	for i := range p.threads {
		p.threads[i] = m.newScratch()
	}
	p.linear.p, p.tokens.p, p.attend.p, p.recur.p, p.expand.p, p.combine.p = p, p, p, p, p, p
	p.expand.runs = make([]expertRun, 0, m.shape.Experts+1)
	p.expand.counts = make([]int32, m.shape.Experts)
	p.buf.grow(m, 1)
	return p
}

// run computes tokens at positions pos and up, at most maxRows, and writes the logits of rows [from, len(tokens)).
func (p *pass) run(s *sequence, tokens []int32, pos, from int, logits []float32) {
	m := p.m
	p.seq, p.pos, p.rows, p.from = s, pos, len(tokens), 0
	p.buf.grow(m, p.rows)
	for i := range p.threads {
		p.threads[i].growAttention(m, pos+p.rows)
	}
	hidden := m.shape.Hidden
	for t, id := range tokens {
		m.weights.Embed.Row(int(id), p.buf.h[t*hidden:(t+1)*hidden])
	}
	p.angles()
	p.traced(0)
	for i := range m.layers {
		if m.opt.OnLayer != nil {
			m.opt.OnLayer(i)
		}
		p.layer = &m.layers[i]
		if i == len(m.layers)-1 {
			p.from = from // rows before it end here, with their part in the mixer's state
		}
		p.normRows(p.layer.InputNorm, 0)
		if p.layer.Attn != nil {
			p.attention()
		} else {
			p.deltaNet()
		}
		if p.from < p.rows {
			p.normRows(p.layer.PostNorm, p.from)
			p.feedForward()
		}
		p.traced(i + 1)
	}
	if from < p.rows {
		p.normRows(m.weights.Norm, from)
		p.project(&p.buf.x, from, p.rows, projection{w: &m.weights.Head, dst: logits, stride: m.shape.Vocab, shift: from})
	}
	p.seq, p.layer = nil, nil
}

func (p *pass) traced(layer int) {
	if p.trace != nil {
		p.trace(layer, p.buf.h[:p.rows*p.m.shape.Hidden])
	}
}

// normRows writes the normalised rows [from, rows) of h to x.
func (p *pass) normRows(gain []float32, from int) {
	p.tokens.gain = gain
	p.perToken(normRow, from)
}

func normRow(p *pass, t int) {
	hidden := p.m.shape.Hidden
	p.m.kernels.rmsNorm(p.buf.x.row(t), p.buf.h[t*hidden:(t+1)*hidden], p.tokens.gain, p.m.shape.NormEps)
	p.buf.x.sumRow(t)
}

// tokenTask calls a function for each token.
type tokenTask struct {
	p    *pass
	f    func(p *pass, t int)
	from int
	gain []float32
}

// tokensPerUnit is how many tokens a unit of a tokenTask takes.
const tokensPerUnit = 8

// perToken calls f for the tokens [from, rows).
func (p *pass) perToken(f func(p *pass, t int), from int) {
	p.tokens.f, p.tokens.from = f, from
	p.m.pool.run(&p.tokens, (p.rows-from+tokensPerUnit-1)/tokensPerUnit)
}

func (k *tokenTask) unit(_, i int) {
	first := k.from + i*tokensPerUnit
	for t := first; t < min(first+tokensPerUnit, k.p.rows); t++ {
		k.f(k.p, t)
	}
}

// angles fills the rotary table of the positions at hand; float64, since a position of 262,143 has no exact angle in fp32.
func (p *pass) angles() {
	half := len(p.m.rope)
	for t := range p.rows {
		for i, f := range p.m.rope {
			sin, cos := math.Sincos(float64(p.pos+t) * f)
			p.buf.sin[t*half+i], p.buf.cos[t*half+i] = float32(sin), float32(cos)
		}
	}
}
