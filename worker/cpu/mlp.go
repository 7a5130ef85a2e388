package cpu

import "lilypad/worker/checkpoint"

// feedForward is the MoE block or the dense MLP (model specification 2.7), added to h for rows [from, rows). A dense MLP
// runs as a shared expert with gate 1.
func (p *pass) feedForward() {
	l, s, b, k := p.layer, p.m.shape, &p.buf, &p.expand
	all := expertRun{act: &b.always, at: p.from, first: p.from, rows: p.rows - p.from}
	k.runs = k.runs[:0]
	if l.MoE != nil {
		p.project(&b.x, p.from, p.rows,
			projection{w: &l.MoE.Router, dst: b.router, stride: s.Experts},
			projection{w: &l.MoE.SharedGate, dst: b.gate, stride: 1})
		p.perToken(routeRow, p.from)
		p.groupByExpert()
		b.always.shape(s.SharedFFN)
		all.w, all.weights = &l.MoE.Shared, b.gate[p.from:]
	} else {
		b.always.shape(s.FFN)
		all.w, all.weights = l.MLP, b.ones
	}
	k.runs = append(k.runs, all)
	p.m.pool.run(k, k.cut())
	p.perToken(sumActivations, p.from)
	p.combine.run()
}

// expertRun is one expert and its rows, which are consecutive rows of act. Their inputs are the rows tokens of x, or, where
// that is nil, the rows from first on.
type expertRun struct {
	w           *checkpoint.MLPWeights
	act         *batch
	at          int // first row in act
	first, rows int
	tokens      []int32
	weights     []float32 // of each row in the sum over experts
	units, step int
}

// token is the row of x and h that row i belongs to.
func (r *expertRun) token(i int) int { return rowAt(r.tokens, r.first, i) }

// groupByExpert makes a run for each expert that some token chose, in ascending id.
func (p *pass) groupByExpert() {
	s, b, k := p.m.shape, &p.buf, &p.expand
	at := 0
	clear(k.counts)
	for _, id := range b.top[p.from*s.ExpertsPerToken : p.rows*s.ExpertsPerToken] {
		k.counts[id]++
	}
	for e := range s.Experts {
		n := int(k.counts[e])
		k.counts[e] = int32(at)
		if n > 0 {
			k.runs = append(k.runs, expertRun{
				w: &p.layer.MoE.Experts[e], act: &b.routed, at: at, rows: n,
				tokens: b.slots[at : at+n], weights: b.weights[at : at+n],
			})
		}
		at += n
	}
	for t := p.from; t < p.rows; t++ {
		for i := t * s.ExpertsPerToken; i < (t+1)*s.ExpertsPerToken; i++ {
			slot := &k.counts[b.top[i]]
			b.slots[*slot], b.weights[*slot] = int32(t), b.topW[i]
			*slot++
		}
	}
}

// expandTask computes silu(gate x) * up x of all experts at hand; a unit is some rows of one expert's matrices.
type expandTask struct {
	p      *pass
	runs   []expertRun
	counts []int32 // by expert: number of tokens, then the next row of its run
}

// cut chooses the units of each run and returns their number.
func (k *expandTask) cut() int {
	all := 0
	for i := range k.runs {
		r := &k.runs[i]
		r.step = k.p.m.unitRows(2*k.p.m.shape.Hidden, r.rows, r.w.Up.Rows)
		r.units = unitsOf(r.w.Up.Rows, r.step)
		all += r.units
	}
	return all
}

func (k *expandTask) unit(worker, i int) {
	n := 0
	for ; i >= k.runs[n].units; n++ {
		i -= k.runs[n].units
	}
	r, s := &k.runs[n], &k.p.threads[worker]
	from := i * r.step
	width := min(r.step, r.w.Up.Rows-from)
	s.mulRows(s, s.out, &r.w.Gate, from, width, &k.p.buf.x, r.tokens, r.first, r.rows)
	s.mulRows(s, s.out2, &r.w.Up, from, width, &k.p.buf.x, r.tokens, r.first, r.rows)
	for t := range r.rows {
		dst, at := r.act.row(r.at + t)[from:from+width], t*outStride(width)
		gate, up := s.out[at:at+width], s.out2[at:at+width]
		for j := range dst {
			dst[j] = silu(gate[j]) * up[j]
		}
	}
}

// sumActivations fills the block sums of the activations that belong to token t.
func sumActivations(p *pass, t int) {
	p.buf.always.sumRow(t)
	if p.layer.MoE != nil {
		n := p.m.shape.ExpertsPerToken
		for i := range n {
			p.buf.routed.sumRow((t-p.from)*n + i)
		}
	}
}

// combineTask adds the weighted down projections of all experts to h: for each token its experts in ascending id, then the
// shared one, whatever tokens share an expert. A unit is some rows of all down matrices.
type combineTask struct {
	p    *pass
	step int
}

func (k *combineTask) run() {
	p, work := k.p, 0
	for i := range p.expand.runs {
		r := &p.expand.runs[i]
		work += r.rows * r.act.cols
	}
	hidden := p.m.shape.Hidden
	k.step = min(p.m.unitRows(work, 1, hidden), max(4, maxOut/(p.rows-p.from)&^3))
	p.m.pool.run(k, unitsOf(hidden, k.step))
}

func (k *combineTask) unit(worker, i int) {
	p, s, hidden := k.p, &k.p.threads[worker], k.p.m.shape.Hidden
	from := i * k.step
	width := min(k.step, hidden-from)
	for t := p.from; t < p.rows; t++ {
		clear(p.buf.y[t*hidden+from:][:width])
	}
	for n := range p.expand.runs {
		r := &p.expand.runs[n]
		s.mulRows(s, s.out, &r.w.Down, from, width, r.act, nil, r.at, r.rows)
		for t := range r.rows {
			addScaled(p.buf.y[r.token(t)*hidden+from:][:width], s.out[t*outStride(width):][:width], r.weights[t])
		}
	}
	for t := p.from; t < p.rows; t++ {
		y := p.buf.y[t*hidden+from:][:width]
		h := p.buf.h[t*hidden+from:][:width]
		for j := range h {
			h[j] += y[j]
		}
	}
}
