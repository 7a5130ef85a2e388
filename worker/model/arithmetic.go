package model

// Format says how many bits a weight takes in memory, scales and biases included. MLX affine with groups of 64 and 16-bit
// scales and biases adds half a bit to each code: 4.5 and 8.5; unquantised weights have 16 or 32.
type Format struct {
	Linear float64 // embedding, head and every linear module but the next two
	Gate   float64 // router and shared-expert gate
}

// MLX4 is the format of the published 4-bit checkpoints: router and shared-expert gate have 8 bits.
var MLX4 = Format{Linear: 4.5, Gate: 8.5}

// parts counts the parameters of something by how they are stored.
type parts struct {
	linear, gate int64
	vector       int64 // bf16 in published files
	float        int64 // A_log: fp32
}

func (p parts) plus(q parts, times int) parts {
	n := int64(times)
	return parts{p.linear + n*q.linear, p.gate + n*q.gate, p.vector + n*q.vector, p.float + n*q.float}
}

func (p parts) total() int64 { return p.linear + p.gate + p.vector + p.float }

func (p parts) bytes(f Format) int64 {
	return int64((float64(p.linear)*f.Linear+float64(p.gate)*f.Gate)/8) + 2*p.vector + 4*p.float
}

func (s *Shape) attention() parts {
	heads, kv, hidden := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim, s.Hidden
	return parts{linear: int64(2*heads+2*kv)*int64(hidden) + int64(heads)*int64(hidden), vector: int64(2 * s.HeadDim)}
}

func (s *Shape) deltaNet() parts {
	values := s.ValueHeads * s.ValueDim
	rows := s.ConvChannels() + values + 2*s.ValueHeads
	return parts{
		linear: int64(rows)*int64(s.Hidden) + int64(values)*int64(s.Hidden),
		vector: int64(s.ConvChannels()*s.Conv + s.ValueHeads + s.ValueDim),
		float:  int64(s.ValueHeads),
	}
}

// feedForward counts a layer's MLP with the given number of routed experts.
func (s *Shape) feedForward(l Layer, experts int) parts {
	if !l.MoE {
		return parts{linear: 3 * int64(s.Hidden) * int64(s.FFN)}
	}
	widths := int64(experts)*int64(s.ExpertFFN) + int64(s.SharedFFN)
	return parts{linear: 3 * int64(s.Hidden) * widths, gate: int64(s.Hidden) * int64(s.Experts+1)}
}

// body counts all layers and the final norm with the given number of experts a layer.
func (s *Shape) body(experts int) parts {
	p := parts{vector: int64(s.Hidden)}
	for _, l := range s.Layers {
		mixer := s.deltaNet()
		if l.Mixer == Attention {
			mixer = s.attention()
		}
		p = p.plus(mixer, 1).plus(s.feedForward(l, experts), 1).plus(parts{vector: int64(2 * s.Hidden)}, 1)
	}
	return p
}

// matrix counts the embedding or the head.
func (s *Shape) matrix() parts { return parts{linear: int64(s.Vocab) * int64(s.Hidden)} }

func (s *Shape) all() parts {
	tables := 2
	if s.Tied {
		tables = 1
	}
	return s.body(s.Experts).plus(s.matrix(), tables)
}

// Parameters is the number of weights of the text model; a tied head counts once.
func (s *Shape) Parameters() int64 { return s.all().total() }

// WeightBytes is the size of all weights in a format, small tensors in bf16 and A_log in fp32 as published.
func (s *Shape) WeightBytes(f Format) int64 { return s.all().bytes(f) }

// DecodeParameters is the number of weights that one decoded token is multiplied with: everything but the experts not
// chosen and the embedding (one row).
func (s *Shape) DecodeParameters() int64 {
	return s.body(s.ExpertsPerToken).plus(s.matrix(), 1).total()
}

// DecodeBytes is what one decoded token reads of the weights at batch 1, the embedding row apart.
func (s *Shape) DecodeBytes(f Format) int64 {
	return s.body(s.ExpertsPerToken).plus(s.matrix(), 1).bytes(f)
}

// KVBytes is the size of keys and values of one token in all attention layers: 2 bytes an element for bf16, 4 for fp32.
func (s *Shape) KVBytes(element int) int64 {
	return int64(s.Count(Attention)) * 2 * int64(s.KVHeads*s.HeadDim) * int64(element)
}

// RecurrentBytes is the size of the fp32 recurrent states of one sequence, [ValueHeads, KeyDim, ValueDim] in each DeltaNet
// layer.
func (s *Shape) RecurrentBytes() int64 {
	return int64(s.Count(DeltaNet)) * int64(s.ValueHeads*s.KeyDim*s.ValueDim) * 4
}

// ConvBytes is the size of the conv windows of one sequence, [Conv-1, ConvChannels] in each DeltaNet layer.
func (s *Shape) ConvBytes(element int) int64 {
	return int64(s.Count(DeltaNet)) * int64((s.Conv-1)*s.ConvChannels()) * int64(element)
}

// StateBytes is what a sequence holds whatever its length: recurrent states and conv windows.
func (s *Shape) StateBytes(convElement int) int64 {
	return s.RecurrentBytes() + s.ConvBytes(convElement)
}

// PrefillFLOPs is the work of one prompt token whose logits are not wanted, at a position with context tokens before and
// including it. A multiply-add is two.
func (s *Shape) PrefillFLOPs(context int) int64 {
	body := s.body(s.ExpertsPerToken)
	conv := int64(s.Count(DeltaNet)) * int64(s.ConvChannels()*s.Conv)
	return 2*(body.linear+body.gate+conv) + s.recurrenceFLOPs() + s.attentionFLOPs()*int64(context)
}

// DecodeFLOPs is PrefillFLOPs and the head.
func (s *Shape) DecodeFLOPs(context int) int64 {
	return s.PrefillFLOPs(context) + 2*s.matrix().linear
}

// recurrenceFLOPs: per state element the decay (1), the read of the prediction, the rank-1 write and the read of the
// output (2 each).
func (s *Shape) recurrenceFLOPs() int64 { return 7 * s.RecurrentBytes() / 4 }

// attentionFLOPs is the work per context token: a multiply-add for the score and one for the sum of values.
func (s *Shape) attentionFLOPs() int64 {
	return int64(s.Count(Attention)) * 4 * int64(s.Heads*s.HeadDim)
}
