package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
)

// storage says how the matrices of a random model are stored.
type storage struct {
	typ         checkpoint.DType
	bits, group int
	scales      checkpoint.DType
}

var (
	asBF16 = storage{typ: checkpoint.BF16}
	asF16  = storage{typ: checkpoint.F16}
	asF32  = storage{typ: checkpoint.F32}
)

func affine(bits, group int, scales checkpoint.DType) storage {
	return storage{checkpoint.Affine, bits, group, scales}
}

// random makes weights; store is asked in turn for each matrix.
type random struct {
	*rand.Rand
	store []storage
	next  int
}

func floatBytes(t checkpoint.DType, v []float32) []byte {
	var out []byte
	for _, f := range v {
		switch t {
		case checkpoint.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(f)>>16))
		case checkpoint.F16: // 2^-14 <= |f| < 2: the exponent fits and the mantissa is cut
			u := math.Float32bits(f)
			h := uint16(u>>16)&0x8000 | uint16(int(u>>23&0xff)-112)<<10 | uint16(u>>13)&0x3ff
			if math.Abs(float64(f)) < 0x1p-14 {
				h = 0
			}
			out = binary.LittleEndian.AppendUint16(out, h)
		default:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
		}
	}
	return out
}

func (r *random) floats(n int, mean, spread float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(mean + spread*r.NormFloat64())
	}
	return v
}

// matrix makes weights of standard deviation about 1/sqrt(cols). Its bytes start at an odd address, as they may in a file.
func (r *random) matrix(rows, cols int) checkpoint.Matrix {
	st := r.store[r.next%len(r.store)]
	r.next++
	if st.typ == checkpoint.Affine && cols%st.group != 0 {
		st = asF32
	}
	unaligned := func(b []byte) []byte { return append([]byte{0xff}, b...)[1:] }
	m := checkpoint.Matrix{Rows: rows, Cols: cols, Type: st.typ}
	deviation := 1 / math.Sqrt(float64(cols))
	if st.typ != checkpoint.Affine {
		m.Data = unaligned(floatBytes(st.typ, r.floats(rows*cols, 0, deviation)))
		return m
	}
	m.Bits, m.Group, m.ScaleType = st.bits, st.group, st.scales
	m.Data = make([]byte, rows*cols*st.bits/8)
	for i := range m.Data {
		m.Data[i] = byte(r.Uint32())
	}
	m.Data = unaligned(m.Data)
	top := float64(int(1)<<st.bits - 1)
	step := 3.4 * deviation / top // uniform codes over ±1.7 deviations
	pairs := rows * cols / st.group
	scales, biases := r.floats(pairs, step, step/8), r.floats(pairs, -step*top/2, step/8)
	m.Scales, m.Biases = unaligned(floatBytes(st.scales, scales)), unaligned(floatBytes(st.scales, biases))
	return m
}

func (r *random) mlp(hidden, width int) checkpoint.MLPWeights {
	return checkpoint.MLPWeights{Gate: r.matrix(width, hidden), Up: r.matrix(width, hidden), Down: r.matrix(hidden, width)}
}

// randomCheckpoint fills a shape with random weights.
func randomCheckpoint(seed uint64, s model.Shape, store ...storage) *checkpoint.Checkpoint {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), store: store}
	ck := &checkpoint.Checkpoint{Name: "random", Shape: s}
	w := &ck.Weights
	w.Embed, w.Norm = r.matrix(s.Vocab, s.Hidden), r.floats(s.Hidden, 1, 0.1)
	w.Head = w.Embed
	if !s.Tied {
		w.Head = r.matrix(s.Vocab, s.Hidden)
	}
	for _, l := range s.Layers {
		lw := checkpoint.LayerWeights{InputNorm: r.floats(s.Hidden, 1, 0.1), PostNorm: r.floats(s.Hidden, 1, 0.1)}
		if l.Mixer == model.Attention {
			lw.Attn = &checkpoint.AttnWeights{
				Q: r.matrix(s.Heads*2*s.HeadDim, s.Hidden), K: r.matrix(s.KVHeads*s.HeadDim, s.Hidden), V: r.matrix(s.KVHeads*s.HeadDim, s.Hidden),
				O: r.matrix(s.Hidden, s.Heads*s.HeadDim), QNorm: r.floats(s.HeadDim, 1, 0.3), KNorm: r.floats(s.HeadDim, 1, 0.3),
			}
		} else {
			values := s.ValueHeads * s.ValueDim
			lw.Delta = &checkpoint.DeltaWeights{
				QKV: r.matrix(s.ConvChannels(), s.Hidden), Z: r.matrix(values, s.Hidden),
				B: r.matrix(s.ValueHeads, s.Hidden), A: r.matrix(s.ValueHeads, s.Hidden), Out: r.matrix(s.Hidden, values),
				Conv: r.floats(s.ConvChannels()*s.Conv, 0, 0.5), ALog: r.floats(s.ValueHeads, 0, 1), DtBias: r.floats(s.ValueHeads, 0, 1),
				Norm: r.floats(s.ValueDim, 1, 0.1),
			}
		}
		if l.MoE {
			lw.MoE = &checkpoint.MoEWeights{Router: r.matrix(s.Experts, s.Hidden), Shared: r.mlp(s.Hidden, s.SharedFFN), SharedGate: r.matrix(1, s.Hidden)}
			for range s.Experts {
				lw.MoE.Experts = append(lw.MoE.Experts, r.mlp(s.Hidden, s.ExpertFFN))
			}
		} else {
			mlp := r.mlp(s.Hidden, s.FFN)
			lw.MLP = &mlp
		}
		w.Layers = append(w.Layers, lw)
	}
	return ck
}

// relative is a small shape of the family with r value heads for each key head.
func relative(r int) model.Shape {
	delta, attn := model.Layer{Mixer: model.DeltaNet, MoE: true}, model.Layer{Mixer: model.Attention, MoE: true}
	return model.Shape{
		Type: "qwen3_5_moe", Layers: []model.Layer{delta, delta, attn, delta, attn}, Hidden: 128, Vocab: 97, NormEps: 1e-6, Context: 512,
		Heads: 4, KVHeads: 2, HeadDim: 64, Rotary: 16, RopeTheta: 1e6,
		KeyHeads: 2, ValueHeads: 2 * r, KeyDim: 32, ValueDim: 64, Conv: 4,
		Experts: 8, ExpertsPerToken: 3, ExpertFFN: 64, SharedFFN: 128, NormTopK: true,
	}
}

// relatives are the shapes and storages that the tests go through.
func relatives() map[string]*checkpoint.Checkpoint {
	dense := func(s *model.Shape) {
		s.Type, s.Experts, s.ExpertsPerToken, s.FFN, s.Tied = "qwen3_5", 0, 0, 160, true
		for i := range s.Layers {
			s.Layers[i].MoE = false
		}
	}
	shape := func(r int, change func(s *model.Shape)) model.Shape {
		s := relative(r)
		if change != nil {
			change(&s)
		}
		return s
	}
	return map[string]*checkpoint.Checkpoint{
		"r1 f32":       randomCheckpoint(1, shape(1, nil), asF32),
		"r2 bf16":      randomCheckpoint(2, shape(2, nil), asBF16),
		"r3 4-bit":     randomCheckpoint(3, shape(3, nil), affine(4, 64, checkpoint.BF16)),
		"r4 mixed":     randomCheckpoint(4, shape(4, nil), affine(2, 32, checkpoint.F16), affine(3, 64, checkpoint.BF16), affine(5, 32, checkpoint.F32), affine(6, 128, checkpoint.BF16), affine(8, 64, checkpoint.F16), affine(4, 128, checkpoint.F32), asF16),
		"dense tied":   randomCheckpoint(5, shape(1, dense), affine(4, 32, checkpoint.BF16), affine(8, 128, checkpoint.BF16)),
		"dense groups": randomCheckpoint(6, shape(2, dense), asF16, asBF16, affine(3, 32, checkpoint.F32)),
		"qwen3_next": randomCheckpoint(7, shape(2, func(s *model.Shape) {
			s.Type, s.NormTopK = "qwen3_next", false
			s.Layers[1].MoE = false // mlp_only_layers
			s.FFN = 96
		}), affine(4, 64, checkpoint.BF16)),
		"odd widths": randomCheckpoint(8, shape(3, func(s *model.Shape) {
			s.Hidden, s.HeadDim, s.Rotary, s.Heads, s.KVHeads = 100, 40, 10, 6, 2
			s.KeyDim, s.ValueDim, s.ExpertFFN, s.SharedFFN, s.Conv = 20, 27, 33, 70, 3
		}), asBF16, asF32),
		"one key head of attention": randomCheckpoint(9, shape(4, func(s *model.Shape) { s.Heads, s.KVHeads, s.Experts, s.ExpertsPerToken = 8, 1, 5, 5 }), affine(6, 64, checkpoint.BF16), affine(4, 64, checkpoint.BF16)),
	}
}
