package checkpoint

import (
	"fmt"

	"lilypad/worker/model"
)

// assemble fills w from the tensors, whatever layout they have, and refuses tensors that are missing or left over.
func (l *loader) assemble(w *Weights) error {
	s := l.shape
	if err := l.detectLayout(); err != nil {
		return err
	}
	w.Embed = l.linear("embed_tokens", s.Vocab, s.Hidden)
	w.Head = w.Embed
	if !s.Tied {
		w.Head = l.linear("lm_head", s.Vocab, s.Hidden)
	}
	w.Norm = l.gain("norm.weight", s.Hidden)
	w.Layers = make([]LayerWeights, len(s.Layers))
	for i, kind := range s.Layers {
		p := fmt.Sprintf("layers.%d.", i)
		lw := &w.Layers[i]
		lw.InputNorm = l.gain(p+"input_layernorm.weight", s.Hidden)
		lw.PostNorm = l.gain(p+"post_attention_layernorm.weight", s.Hidden)
		if kind.Mixer == model.Attention {
			lw.Attn = l.attention(p + "self_attn.")
		} else {
			lw.Delta = l.deltaNet(p + "linear_attn.")
		}
		if kind.MoE {
			lw.MoE = l.moe(p + "mlp.")
		} else {
			lw.MLP = l.mlp(p+"mlp.", s.FFN)
		}
		if l.err != nil {
			return l.err
		}
	}
	if err := l.leftovers(); err != nil {
		return err
	}
	return l.checkGains(w)
}

func (l *loader) attention(p string) *AttnWeights {
	s := l.shape
	return &AttnWeights{
		Q:     l.linear(p+"q_proj", s.Heads*2*s.HeadDim, s.Hidden),
		K:     l.linear(p+"k_proj", s.KVHeads*s.HeadDim, s.Hidden),
		V:     l.linear(p+"v_proj", s.KVHeads*s.HeadDim, s.Hidden),
		O:     l.linear(p+"o_proj", s.Hidden, s.Heads*s.HeadDim),
		QNorm: l.gain(p+"q_norm.weight", s.HeadDim),
		KNorm: l.gain(p+"k_norm.weight", s.HeadDim),
	}
}

func (l *loader) deltaNet(p string) *DeltaWeights {
	s := l.shape
	d := &DeltaWeights{
		Out:    l.linear(p+"out_proj", s.Hidden, s.ValueHeads*s.ValueDim),
		Conv:   l.vector(p+"conv1d.weight", s.ConvChannels(), s.Conv),
		ALog:   l.vector(p+"A_log", s.ValueHeads),
		DtBias: l.vector(p+"dt_bias", s.ValueHeads),
		Norm:   l.vector(p+"norm.weight", s.ValueDim),
	}
	if s.Type == "qwen3_next" && l.has(p+"in_proj_qkvz.weight") {
		l.fused(p, d)
		return d
	}
	d.QKV = l.linear(p+"in_proj_qkv", s.ConvChannels(), s.Hidden)
	d.Z = l.linear(p+"in_proj_z", s.ValueHeads*s.ValueDim, s.Hidden)
	d.B = l.linear(p+"in_proj_b", s.ValueHeads, s.Hidden)
	d.A = l.linear(p+"in_proj_a", s.ValueHeads, s.Hidden)
	return d
}

func (l *loader) mlp(p string, width int) *MLPWeights {
	return &MLPWeights{
		Gate: l.linear(p+"gate_proj", width, l.shape.Hidden),
		Up:   l.linear(p+"up_proj", width, l.shape.Hidden),
		Down: l.linear(p+"down_proj", l.shape.Hidden, width),
	}
}

func (l *loader) moe(p string) *MoEWeights {
	s := l.shape
	return &MoEWeights{
		Router:     l.linear(p+"gate", s.Experts, s.Hidden),
		Experts:    l.experts(p),
		Shared:     *l.mlp(p+"shared_expert.", s.SharedFFN),
		SharedGate: l.linear(p+"shared_expert_gate", 1, s.Hidden),
	}
}

// experts takes the routed experts in whichever of the three layouts they have: MLX's stacks, Hugging Face's stacks with
// gate and up in one, or one by one.
func (l *loader) experts(p string) []MLPWeights {
	s := l.shape
	e, inner, hidden := s.Experts, s.ExpertFFN, s.Hidden
	all := make([]MLPWeights, e)
	switch {
	case l.has(p + "switch_mlp.gate_proj.weight"):
		gate := l.linear(p+"switch_mlp.gate_proj", e, inner, hidden)
		up := l.linear(p+"switch_mlp.up_proj", e, inner, hidden)
		down := l.linear(p+"switch_mlp.down_proj", e, hidden, inner)
		for i := range all {
			if l.err != nil {
				break
			}
			all[i] = MLPWeights{gate.Slice(i*inner, inner), up.Slice(i*inner, inner), down.Slice(i*hidden, hidden)}
		}
	case l.has(p + "experts.0.gate_proj.weight"):
		for i := range all {
			all[i] = *l.mlp(fmt.Sprintf("%sexperts.%d.", p, i), inner)
		}
	default:
		both := l.stored(p+"experts.gate_up_proj", e, 2*inner, hidden)
		down := l.stored(p+"experts.down_proj", e, hidden, inner)
		for i := range all {
			if l.err != nil {
				break
			}
			all[i] = MLPWeights{both.Slice(2*i*inner, inner), both.Slice((2*i+1)*inner, inner), down.Slice(i*hidden, hidden)}
		}
	}
	return all
}

// each calls f for every matrix once, with gate true for routers and shared-expert gates. A tied head is not visited.
func (w *Weights) each(tied bool, f func(m *Matrix, gate bool)) {
	mlp := func(m *MLPWeights) {
		f(&m.Gate, false)
		f(&m.Up, false)
		f(&m.Down, false)
	}
	f(&w.Embed, false)
	if !tied {
		f(&w.Head, false)
	}
	for i := range w.Layers {
		l := &w.Layers[i]
		if a := l.Attn; a != nil {
			for _, m := range []*Matrix{&a.Q, &a.K, &a.V, &a.O} {
				f(m, false)
			}
		}
		if d := l.Delta; d != nil {
			for _, m := range []*Matrix{&d.QKV, &d.Z, &d.B, &d.A, &d.Out} {
				f(m, false)
			}
		}
		if l.MLP != nil {
			mlp(l.MLP)
		}
		if l.MoE != nil {
			f(&l.MoE.Router, true)
			f(&l.MoE.SharedGate, true)
			mlp(&l.MoE.Shared)
			for e := range l.MoE.Experts {
				mlp(&l.MoE.Experts[e])
			}
		}
	}
}

// bytes is the memory of all weights: matrices as stored, vectors as fp32.
func (w *Weights) bytes(tied bool) int64 {
	var n int64
	w.each(tied, func(m *Matrix, _ bool) { n += m.Bytes() })
	vector := func(v []float32) { n += 4 * int64(len(v)) }
	vector(w.Norm)
	for _, l := range w.Layers {
		vector(l.InputNorm)
		vector(l.PostNorm)
		if a := l.Attn; a != nil {
			vector(a.QNorm)
			vector(a.KNorm)
		}
		if d := l.Delta; d != nil {
			for _, v := range [][]float32{d.Conv, d.ALog, d.DtBias, d.Norm} {
				vector(v)
			}
		}
	}
	return n
}
