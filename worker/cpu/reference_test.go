package cpu

import (
	"math"
	"slices"
	"testing"

	"lilypad/worker/checkpoint"
	"lilypad/worker/checkpoint/checkpointtest"
)

// The twin: section 2 of the model specification in float64, token by token, over weights dequantised with Matrix.Row. It
// shares nothing with the package but the contracts.

type twin struct {
	ck     *checkpoint.Checkpoint
	dense  map[*checkpoint.Matrix][]float32
	tokens int
	layers []twinLayer
}

type twinLayer struct {
	keys, values [][]float64 // [token][KVHeads*HeadDim]
	columns      [][]float64 // last Conv-1 inputs of the convolution
	state        [][][]float64
}

func (w *twin) mul(m *checkpoint.Matrix, x []float64) []float64 {
	d := w.dense[m]
	if d == nil {
		d = make([]float32, m.Rows*m.Cols)
		for r := range m.Rows {
			m.Row(r, d[r*m.Cols:(r+1)*m.Cols])
		}
		w.dense[m] = d
	}
	out := make([]float64, m.Rows)
	for r := range out {
		for i, v := range d[r*m.Cols : (r+1)*m.Cols] {
			out[r] += float64(v) * x[i]
		}
	}
	return out
}

func normalised(x []float64, gain []float32, eps float64) []float64 {
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+eps) * float64(gain[i])
	}
	return out
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func newTwin(ck *checkpoint.Checkpoint) *twin {
	w := &twin{ck: ck, dense: make(map[*checkpoint.Matrix][]float32), layers: make([]twinLayer, len(ck.Shape.Layers))}
	s := &ck.Shape
	for i := range w.layers {
		l := &w.layers[i]
		for range s.Conv - 1 {
			l.columns = append(l.columns, make([]float64, s.ConvChannels()))
		}
		for range s.ValueHeads {
			head := make([][]float64, s.KeyDim)
			for k := range head {
				head[k] = make([]float64, s.ValueDim)
			}
			l.state = append(l.state, head)
		}
	}
	return w
}

// step computes one token and returns its logits.
func (w *twin) step(token int32) []float64 {
	s, weights := &w.ck.Shape, &w.ck.Weights
	row := make([]float32, s.Hidden)
	weights.Embed.Row(int(token), row)
	h := make([]float64, s.Hidden)
	for i, v := range row {
		h[i] = float64(v)
	}
	add := func(y []float64) {
		for i, v := range y {
			h[i] += v
		}
	}
	for i := range weights.Layers {
		l := &weights.Layers[i]
		x := normalised(h, l.InputNorm, float64(s.NormEps))
		if l.Attn != nil {
			add(w.attention(l.Attn, &w.layers[i], x))
		} else {
			add(w.delta(l.Delta, &w.layers[i], x))
		}
		x = normalised(h, l.PostNorm, float64(s.NormEps))
		if l.MoE != nil {
			add(w.experts(l.MoE, x))
		} else {
			add(w.expert(l.MLP, x))
		}
	}
	w.tokens++
	return w.mul(&weights.Head, normalised(h, weights.Norm, float64(s.NormEps)))
}

func (w *twin) turn(x []float64) {
	s := &w.ck.Shape
	for i := range s.Rotary / 2 {
		phi := float64(w.tokens) * math.Pow(s.RopeTheta, -2*float64(i)/float64(s.Rotary))
		a, b := x[i], x[i+s.Rotary/2]
		x[i], x[i+s.Rotary/2] = a*math.Cos(phi)-b*math.Sin(phi), b*math.Cos(phi)+a*math.Sin(phi)
	}
}

func (w *twin) attention(a *checkpoint.AttnWeights, l *twinLayer, x []float64) []float64 {
	s := &w.ck.Shape
	hd := s.HeadDim
	qg, k, v := w.mul(&a.Q, x), w.mul(&a.K, x), w.mul(&a.V, x)
	for h := range s.KVHeads {
		head := normalised(k[h*hd:(h+1)*hd], a.KNorm, float64(s.NormEps))
		w.turn(head)
		copy(k[h*hd:], head)
	}
	l.keys, l.values = append(l.keys, k), append(l.values, v)
	var out []float64
	for h := range s.Heads {
		q := normalised(qg[2*h*hd:(2*h+1)*hd], a.QNorm, float64(s.NormEps))
		w.turn(q)
		gate := qg[(2*h+1)*hd : (2*h+2)*hd]
		at := h / (s.Heads / s.KVHeads) * hd
		var total float64
		o := make([]float64, hd)
		for j := range l.keys {
			var score float64
			for i := range hd {
				score += q[i] * l.keys[j][at+i]
			}
			e := math.Exp(score / math.Sqrt(float64(hd)))
			total += e
			for i := range hd {
				o[i] += e * l.values[j][at+i]
			}
		}
		for i := range o {
			out = append(out, o[i]/total*logistic(gate[i]))
		}
	}
	return w.mul(&a.O, out)
}

func (w *twin) delta(d *checkpoint.DeltaWeights, l *twinLayer, x []float64) []float64 {
	s := &w.ck.Shape
	l.columns = append(l.columns, w.mul(&d.QKV, x))
	z, b, a := w.mul(&d.Z, x), w.mul(&d.B, x), w.mul(&d.A, x)
	c := make([]float64, s.ConvChannels())
	for ch := range c {
		for j := range s.Conv {
			c[ch] += float64(d.Conv[ch*s.Conv+j]) * l.columns[j][ch]
		}
		c[ch] *= logistic(c[ch])
	}
	l.columns = l.columns[1:]
	unit := func(x []float64) []float64 {
		var sum float64
		for _, v := range x {
			sum += v * v
		}
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = v / math.Sqrt(sum+1e-6)
		}
		return out
	}
	keys := s.KeyHeads * s.KeyDim
	var out []float64
	for h := range s.ValueHeads {
		kh := h / (s.ValueHeads / s.KeyHeads)
		q, k := unit(c[kh*s.KeyDim:(kh+1)*s.KeyDim]), unit(c[keys+kh*s.KeyDim:keys+(kh+1)*s.KeyDim])
		v := c[2*keys+h*s.ValueDim : 2*keys+(h+1)*s.ValueDim]
		alpha := math.Exp(-math.Exp(float64(d.ALog[h])) * math.Log1p(math.Exp(a[h]+float64(d.DtBias[h]))))
		o := make([]float64, s.ValueDim)
		for j := range s.ValueDim {
			var m float64
			for i := range s.KeyDim {
				l.state[h][i][j] *= alpha
				m += l.state[h][i][j] * k[i]
			}
			for i := range s.KeyDim {
				l.state[h][i][j] += k[i] * logistic(b[h]) * (v[j] - m)
				o[j] += l.state[h][i][j] * q[i] / math.Sqrt(float64(s.KeyDim))
			}
		}
		for j, n := range normalised(o, d.Norm, float64(s.NormEps)) {
			g := z[h*s.ValueDim+j]
			out = append(out, n*g*logistic(g))
		}
	}
	return w.mul(&d.Out, out)
}

func (w *twin) expert(m *checkpoint.MLPWeights, x []float64) []float64 {
	g, u := w.mul(&m.Gate, x), w.mul(&m.Up, x)
	for i := range g {
		g[i] *= logistic(g[i]) * u[i]
	}
	return w.mul(&m.Down, g)
}

func (w *twin) experts(m *checkpoint.MoEWeights, x []float64) []float64 {
	s := &w.ck.Shape
	logits := w.mul(&m.Router, x)
	var all float64
	order := make([]int, s.Experts)
	for i, l := range logits {
		all += math.Exp(l)
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if logits[a] > logits[b] {
			return -1
		}
		if logits[a] < logits[b] {
			return 1
		}
		return 0
	})
	chosen := order[:s.ExpertsPerToken]
	var top float64
	for _, e := range chosen {
		top += math.Exp(logits[e])
	}
	if !s.NormTopK {
		top = all
	}
	y := w.expert(&m.Shared, x)
	gate := logistic(w.mul(&m.SharedGate, x)[0])
	for i := range y {
		y[i] *= gate
	}
	for _, e := range chosen {
		for i, v := range w.expert(&m.Experts[e], x) {
			y[i] += math.Exp(logits[e]) / top * v
		}
	}
	return y
}

// TestAgainstTwin compares logits of every position with the twin's, prefilled and decoded.
func TestAgainstTwin(t *testing.T) { eachSet(t, testAgainstTwin) }

func testAgainstTwin(t *testing.T, set string) {
	if slow {
		t.Skip("numeric: too slow under the race detector")
	}
	const n = 70 // beyond one KV block
	for name, ck := range checkpointtest.Relatives() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, ck, Options{Kernels: set, Threads: 2})
			tokens := someTokens(n, ck.Shape.Vocab)
			s := newSequence(t, m)
			logits := forward(t, s, tokens[:n-3], n-3)
			for _, id := range tokens[n-3:] {
				logits = append(logits, forward(t, s, []int32{id}, 1)...)
			}
			w := newTwin(ck)
			worst := make([]float64, n) // by position
			for p, id := range tokens {
				for i, want := range w.step(id) {
					worst[p] = max(worst[p], math.Abs(float64(logits[p*ck.Shape.Vocab+i])-want))
				}
			}
			// Logits are of size 1. Rounding shows in the median; where a head's output nearly cancels, its norm enlarges it.
			slices.Sort(worst)
			if median, top := worst[n/2], worst[n-1]; !(median < 3e-5 && top < 1e-3) {
				t.Errorf("logits differ by %.2g at the median position, %.2g at the worst", median, top)
			}
		})
	}
}
