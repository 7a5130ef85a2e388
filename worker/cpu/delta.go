package cpu

import "math"

// l2Eps is added to the sum of squares under the root, as Hugging Face does (model specification 2.5, step 4).
const l2Eps = 1e-6

// deltaNet is the Gated DeltaNet mixer (model specification 2.4 and 2.5), added to h.
func (p *pass) deltaNet() {
	w, s, b := p.layer.Delta, p.m.shape, &p.buf
	channels := s.ConvChannels()
	p.project(&b.x, 0, p.rows,
		projection{w: &w.QKV, dst: b.u[(s.Conv-1)*channels:], stride: channels},
		projection{w: &w.Z, dst: b.z, stride: w.Z.Rows},
		projection{w: &w.B, dst: b.beta, stride: s.ValueHeads},
		projection{w: &w.A, dst: b.alpha, stride: s.ValueHeads})
	b.mixed.shape(s.ValueHeads * s.ValueDim)
	p.m.pool.run(&p.recur, s.KeyHeads)
	if p.from == p.rows {
		return
	}
	p.perToken(sumMixed, p.from)
	p.project(&b.mixed, p.from, p.rows, projection{w: &w.Out, dst: b.h, stride: s.Hidden, add: true})
}

// recurTask runs one key head per unit, with the value heads that it serves, through all tokens.
type recurTask struct{ p *pass }

func (k *recurTask) unit(worker, head int) {
	p := k.p
	s := p.m.shape
	per := s.ValueHeads / s.KeyHeads
	values := 2 * s.KeyHeads * s.KeyDim // first value channel
	first, width := values+head*per*s.ValueDim, per*s.ValueDim
	q, kk := head*s.KeyDim, (s.KeyHeads+head)*s.KeyDim
	p.loadWindow(q, s.KeyDim)
	p.loadWindow(kk, s.KeyDim)
	p.loadWindow(first, width)
	for t := range p.rows {
		p.recurToken(&p.threads[worker], head, t)
	}
	p.storeWindow(q, s.KeyDim)
	p.storeWindow(kk, s.KeyDim)
	p.storeWindow(first, width)
}

// recurToken advances the value heads of one key head by token t.
func (p *pass) recurToken(th *scratch, head, t int) {
	w, s, b := p.layer.Delta, p.m.shape, &p.buf
	channels, per := s.ConvChannels(), s.ValueHeads/s.KeyHeads
	conv := func(dst []float32, channel int) {
		th.conv(dst, p.layer.taps[channel:], b.u[t*channels+channel:], channels)
	}
	conv(th.q, head*s.KeyDim)
	conv(th.k, (s.KeyHeads+head)*s.KeyDim)
	th.times(th.q, inverseRoot(th.dot(th.q, th.q)+l2Eps)*float32(1/math.Sqrt(float64(s.KeyDim))))
	th.times(th.k, inverseRoot(th.dot(th.k, th.k)+l2Eps))
	kq := th.dot(th.k, th.q)
	size := s.ValueDim * s.KeyDim
	for h := head * per; h < (head+1)*per; h++ {
		conv(th.v, 2*s.KeyHeads*s.KeyDim+h*s.ValueDim)
		beta := sigmoid(b.beta[t*s.ValueHeads+h])
		alpha := exp(p.layer.decay[h] * softplus(b.alpha[t*s.ValueHeads+h]+w.DtBias[h]))
		o := b.mixed.row(t)[h*s.ValueDim : (h+1)*s.ValueDim]
		th.deltaStep(p.seq.recurrent[(p.layer.index*s.ValueHeads+h)*size:][:size], th.k, th.q, th.v, o, alpha, beta, kq)
		th.rmsNorm(o, o, w.Norm, s.NormEps)
		th.gate(o, b.z[(t*s.ValueHeads+h)*s.ValueDim:][:s.ValueDim])
	}
}

// window is the conv window of the layer at hand, fp32 [Conv-1, ConvChannels].
func (p *pass) window() []float32 {
	n := (p.m.shape.Conv - 1) * p.m.shape.ConvChannels()
	return p.seq.conv[p.layer.index*n : (p.layer.index+1)*n]
}

// loadWindow puts width channels of the window before the rows of u, and storeWindow keeps u's last columns.
func (p *pass) loadWindow(channel, width int) {
	channels, w := p.m.shape.ConvChannels(), p.window()
	for at := channel; at < len(w); at += channels {
		copy(p.buf.u[at:at+width], w[at:at+width])
	}
}

func (p *pass) storeWindow(channel, width int) {
	channels, w := p.m.shape.ConvChannels(), p.window()
	for at := channel; at < len(w); at += channels {
		copy(w[at:at+width], p.buf.u[p.rows*channels+at:][:width])
	}
}
