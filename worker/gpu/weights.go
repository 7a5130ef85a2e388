package gpu

import (
	"math"

	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
)

// weights are those of a checkpoint in device memory.
type weights struct {
	embed, head kernels.Matrix
	norm        kernels.Ref // fp32 [Hidden], gain of the final norm
	layers      []layer
	placer      placer
}

// layer is a decoder layer: one of attn and delta, one of moe and mlp. Gains are fp32 [Hidden].
type layer struct {
	inputGain, postGain kernels.Ref
	attn                *attention
	delta               *delta
	moe                 *moe
	mlp                 *mlp
	index               int // among the layers with the same mixer
}

// projection is a stack of matrices that share their input. Where all have one format it is one matrix.
type projection struct {
	parts   []part
	offsets []int // by member of the stack: element of the output where its first row goes
	width   int   // elements of the output
}

// part is a run of matrices in one format.
type part struct {
	matrix kernels.Matrix
	first  int // element of the output, a multiple of 8
}

type attention struct {
	in           *projection // query and gate of each head, keys, values
	out          kernels.Matrix
	qGain, kGain kernels.Ref // fp32 [HeadDim]
}

type delta struct {
	in            *projection // qkv, z, b, a
	out           kernels.Matrix
	conv          kernels.Ref // fp32 [Conv][ConvChannels]
	decay, dtBias kernels.Ref // fp32 [ValueHeads]; decay is -exp(ALog)
	gain          kernels.Ref // fp32 [ValueDim]
}

type moe struct {
	router  *projection // of the experts, then the shared expert's gate
	experts kernels.Experts
	shared  mlp
}

type mlp struct {
	up   kernels.Matrix // gate rows, then up rows
	down kernels.Matrix
}

// newWeights lays out and copies w. Matrices without data are filled with random numbers (see Synthetic); nothing is
// copied when empty is set.
func newWeights(d *metal.Device, s *model.Shape, w *checkpoint.Weights, threads int, empty bool, progress func(done, total int64)) (*weights, error) {
	ws := &weights{layers: make([]layer, len(w.Layers)), placer: placer{device: d}}
	if err := ws.lay(s, w); err != nil {
		ws.close()
		return nil, err
	}
	if empty {
		ws.placer.jobs = nil
		return ws, nil
	}
	if err := ws.placer.fill(threads, progress); err != nil {
		ws.close()
		return nil, err
	}
	return ws, nil
}

func (ws *weights) close() { ws.placer.close() }

// lay places every tensor, each layer in buffers of its own.
func (ws *weights) lay(s *model.Shape, w *checkpoint.Weights) error {
	p := &ws.placer
	p.matrix(&ws.embed, formatOf(&w.Embed), &w.Embed)
	p.vector(&ws.norm, w.Norm)
	if err := p.flush(); err != nil {
		return err
	}
	if s.Tied {
		ws.head = ws.embed
	} else {
		p.matrix(&ws.head, formatOf(&w.Head), &w.Head)
	}
	counts := map[model.Mixer]int{}
	for i := range w.Layers {
		mixer := s.Layers[i].Mixer
		ws.layers[i].index = counts[mixer]
		counts[mixer]++
		ws.layers[i].lay(p, s, &w.Layers[i])
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (l *layer) lay(p *placer, s *model.Shape, w *checkpoint.LayerWeights) {
	p.vector(&l.inputGain, w.InputNorm)
	p.vector(&l.postGain, w.PostNorm)
	if a := w.Attn; a != nil {
		l.attn = &attention{in: newProjection(p, &a.Q, &a.K, &a.V)}
		p.matrix(&l.attn.out, formatOf(&a.O), &a.O)
		p.vector(&l.attn.qGain, a.QNorm)
		p.vector(&l.attn.kGain, a.KNorm)
	}
	if d := w.Delta; d != nil {
		l.delta = &delta{in: newProjection(p, &d.QKV, &d.Z, &d.B, &d.A)}
		p.matrix(&l.delta.out, formatOf(&d.Out), &d.Out)
		p.vector(&l.delta.conv, transpose(d.Conv, s.ConvChannels(), s.Conv))
		p.vector(&l.delta.decay, decay(d.ALog))
		p.vector(&l.delta.dtBias, d.DtBias)
		p.vector(&l.delta.gain, d.Norm)
	}
	if m := w.MLP; m != nil {
		l.mlp = &mlp{}
		l.mlp.lay(p, m)
	}
	if m := w.MoE; m != nil {
		l.moe = &moe{router: newProjection(p, &m.Router, &m.SharedGate)}
		l.moe.shared.lay(p, &m.Shared)
		layExperts(p, &l.moe.experts, m.Experts)
	}
}

func (m *mlp) lay(p *placer, w *checkpoint.MLPWeights) {
	f, _ := commonFormat(&w.Gate, &w.Up)
	p.matrix(&m.up, f, &w.Gate, &w.Up)
	p.matrix(&m.down, formatOf(&w.Down), &w.Down)
}

// newProjection stacks matrices: in one where they agree on a format, else in several.
func newProjection(p *placer, stack ...*checkpoint.Matrix) *projection {
	pr := &projection{parts: make([]part, 0, len(stack))} // parts must not move: their matrices are set later
	for len(stack) > 0 {
		n, f := 1, formatOf(stack[0])
		for n < len(stack) && formatOf(stack[n]) == f {
			n++
		}
		pr.width = int(roundUp(int64(pr.width), 8))
		pr.parts = append(pr.parts, part{first: pr.width})
		p.matrix(&pr.parts[len(pr.parts)-1].matrix, f, stack[:n]...)
		for _, m := range stack[:n] {
			pr.offsets = append(pr.offsets, pr.width)
			pr.width += m.Rows
		}
		stack = stack[n:]
	}
	return pr
}

// layExperts places equal records, one for each expert: codes and pairs of gate and up, codes and pairs of down.
func layExperts(p *placer, e *kernels.Experts, list []checkpoint.MLPWeights) {
	var ups, downs []*checkpoint.Matrix
	for i := range list {
		ups, downs = append(ups, &list[i].Gate, &list[i].Up), append(downs, &list[i].Down)
	}
	up, _ := commonFormat(ups...)
	down, _ := commonFormat(downs...)
	inner, hidden := list[0].Gate.Rows, list[0].Gate.Cols
	upPairs := roundUp(up.CodesBytes(2*inner, hidden), 16)
	downCodes := roundUp(upPairs+up.PairsBytes(2*inner, hidden), 16)
	downPairs := roundUp(downCodes+down.CodesBytes(hidden, inner), 16)
	stride := roundUp(downPairs+down.PairsBytes(hidden, inner), align)
	if stride > page {
		stride = roundUp(stride, page)
	}
	p.place(stride*int64(len(list)), func(b *metal.Buffer, at int64) {
		*e = kernels.Experts{
			GateUp: kernels.Matrix{Format: up, Rows: 2 * inner, Cols: hidden, Buffer: b, Codes: at, Pairs: at + upPairs},
			Down:   kernels.Matrix{Format: down, Rows: hidden, Cols: inner, Buffer: b, Codes: at + downCodes, Pairs: at + downPairs},
			Count:  len(list), Stride: stride,
		}
		for i := range list {
			gateUp, down := e.GateUp, e.Down
			for _, m := range []*kernels.Matrix{&gateUp, &down} {
				m.Codes += int64(i) * stride
				m.Pairs += int64(i) * stride
			}
			p.rows(&gateUp, 0, &list[i].Gate)
			p.rows(&gateUp, inner, &list[i].Up)
			p.rows(&down, 0, &list[i].Down)
		}
	})
}

// page is the size of Apple silicon's pages: large records start at one.
const page = 16 << 10

// transpose turns [channels][taps] into [taps][channels].
func transpose(v []float32, channels, taps int) []float32 {
	out := make([]float32, len(v))
	for c := range channels {
		for t := range taps {
			out[t*channels+c] = v[c*taps+t]
		}
	}
	return out
}

func decay(aLog []float32) []float32 {
	out := make([]float32, len(aLog))
	for i, a := range aLog {
		out[i] = -float32(math.Exp(float64(a)))
	}
	return out
}
