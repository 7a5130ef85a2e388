// Package checkpointtest makes random checkpoints of the family's shapes, for tests of backends. It must not import one.
package checkpointtest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
)

// Storage says how the matrices of a random model are stored.
type Storage struct {
	Type        checkpoint.DType
	Bits, Group int              // with checkpoint.Affine
	Scales      checkpoint.DType // with checkpoint.Affine
}

// Matrices that are not quantised.
var (
	BF16 = Storage{Type: checkpoint.BF16}
	F16  = Storage{Type: checkpoint.F16}
	F32  = Storage{Type: checkpoint.F32}
)

// Affine is MLX's quantisation.
func Affine(bits, group int, scales checkpoint.DType) Storage {
	return Storage{checkpoint.Affine, bits, group, scales}
}

// Random makes weights; Store is asked in turn for each matrix.
type Random struct {
	*rand.Rand
	Store []Storage
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

// Floats is n normal numbers.
func (r *Random) Floats(n int, mean, spread float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(mean + spread*r.NormFloat64())
	}
	return v
}

// Matrix makes weights of standard deviation about 1/sqrt(cols). Its bytes start at an odd address, as they may in a file.
func (r *Random) Matrix(rows, cols int) checkpoint.Matrix {
	st := r.Store[r.next%len(r.Store)]
	r.next++
	if st.Type == checkpoint.Affine && cols%st.Group != 0 {
		st = F32
	}
	unaligned := func(b []byte) []byte { return append([]byte{0xff}, b...)[1:] }
	m := checkpoint.Matrix{Rows: rows, Cols: cols, Type: st.Type}
	deviation := 1 / math.Sqrt(float64(cols))
	if st.Type != checkpoint.Affine {
		m.Data = unaligned(floatBytes(st.Type, r.Floats(rows*cols, 0, deviation)))
		return m
	}
	m.Bits, m.Group, m.ScaleType = st.Bits, st.Group, st.Scales
	m.Data = make([]byte, rows*cols*st.Bits/8)
	for i := range m.Data {
		m.Data[i] = byte(r.Uint32())
	}
	m.Data = unaligned(m.Data)
	top := float64(int(1)<<st.Bits - 1)
	step := 3.4 * deviation / top // uniform codes over ±1.7 deviations
	pairs := rows * cols / st.Group
	scales, biases := r.Floats(pairs, step, step/8), r.Floats(pairs, -step*top/2, step/8)
	m.Scales, m.Biases = unaligned(floatBytes(st.Scales, scales)), unaligned(floatBytes(st.Scales, biases))
	return m
}

func (r *Random) mlp(hidden, width int) checkpoint.MLPWeights {
	return checkpoint.MLPWeights{Gate: r.Matrix(width, hidden), Up: r.Matrix(width, hidden), Down: r.Matrix(hidden, width)}
}

// Fill makes a checkpoint of a shape with random weights.
func Fill(seed uint64, s model.Shape, store ...Storage) *checkpoint.Checkpoint {
	r := &Random{Rand: rand.New(rand.NewPCG(seed, 1)), Store: store}
	ck := &checkpoint.Checkpoint{Name: "random", Shape: s}
	w := &ck.Weights
	w.Embed, w.Norm = r.Matrix(s.Vocab, s.Hidden), r.Floats(s.Hidden, 1, 0.1)
	w.Head = w.Embed
	if !s.Tied {
		w.Head = r.Matrix(s.Vocab, s.Hidden)
	}
	for _, l := range s.Layers {
		lw := checkpoint.LayerWeights{InputNorm: r.Floats(s.Hidden, 1, 0.1), PostNorm: r.Floats(s.Hidden, 1, 0.1)}
		if l.Mixer == model.Attention {
			lw.Attn = &checkpoint.AttnWeights{
				Q: r.Matrix(s.Heads*2*s.HeadDim, s.Hidden), K: r.Matrix(s.KVHeads*s.HeadDim, s.Hidden), V: r.Matrix(s.KVHeads*s.HeadDim, s.Hidden),
				O: r.Matrix(s.Hidden, s.Heads*s.HeadDim), QNorm: r.Floats(s.HeadDim, 1, 0.3), KNorm: r.Floats(s.HeadDim, 1, 0.3),
			}
		} else {
			values := s.ValueHeads * s.ValueDim
			lw.Delta = &checkpoint.DeltaWeights{
				QKV: r.Matrix(s.ConvChannels(), s.Hidden), Z: r.Matrix(values, s.Hidden),
				B: r.Matrix(s.ValueHeads, s.Hidden), A: r.Matrix(s.ValueHeads, s.Hidden), Out: r.Matrix(s.Hidden, values),
				Conv: r.Floats(s.ConvChannels()*s.Conv, 0, 0.5), ALog: r.Floats(s.ValueHeads, 0, 1), DtBias: r.Floats(s.ValueHeads, 0, 1),
				Norm: r.Floats(s.ValueDim, 1, 0.1),
			}
		}
		if l.MoE {
			lw.MoE = &checkpoint.MoEWeights{Router: r.Matrix(s.Experts, s.Hidden), Shared: r.mlp(s.Hidden, s.SharedFFN), SharedGate: r.Matrix(1, s.Hidden)}
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

// Relative is a small shape of the family with r value heads for each key head.
func Relative(r int) model.Shape {
	delta, attn := model.Layer{Mixer: model.DeltaNet, MoE: true}, model.Layer{Mixer: model.Attention, MoE: true}
	return model.Shape{
		Type: "qwen3_5_moe", Layers: []model.Layer{delta, delta, attn, delta, attn}, Hidden: 128, Vocab: 97, NormEps: 1e-6, Context: 512,
		Heads: 4, KVHeads: 2, HeadDim: 64, Rotary: 16, RopeTheta: 1e6,
		KeyHeads: 2, ValueHeads: 2 * r, KeyDim: 32, ValueDim: 64, Conv: 4,
		Experts: 8, ExpertsPerToken: 3, ExpertFFN: 64, SharedFFN: 128, NormTopK: true,
	}
}

// Relatives are the shapes and storages that the tests go through.
func Relatives() map[string]*checkpoint.Checkpoint {
	dense := func(s *model.Shape) {
		s.Type, s.Experts, s.ExpertsPerToken, s.FFN, s.Tied = "qwen3_5", 0, 0, 160, true
		for i := range s.Layers {
			s.Layers[i].MoE = false
		}
	}
	shape := func(r int, change func(s *model.Shape)) model.Shape {
		s := Relative(r)
		if change != nil {
			change(&s)
		}
		return s
	}
	return map[string]*checkpoint.Checkpoint{
		"r1 f32":       Fill(1, shape(1, nil), F32),
		"r2 bf16":      Fill(2, shape(2, nil), BF16),
		"r3 4-bit":     Fill(3, shape(3, nil), Affine(4, 64, checkpoint.BF16)),
		"r4 mixed":     Fill(4, shape(4, nil), Affine(2, 32, checkpoint.F16), Affine(3, 64, checkpoint.BF16), Affine(5, 32, checkpoint.F32), Affine(6, 128, checkpoint.BF16), Affine(8, 64, checkpoint.F16), Affine(4, 128, checkpoint.F32), F16),
		"dense tied":   Fill(5, shape(1, dense), Affine(4, 32, checkpoint.BF16), Affine(8, 128, checkpoint.BF16)),
		"dense groups": Fill(6, shape(2, dense), F16, BF16, Affine(3, 32, checkpoint.F32)),
		"qwen3_next": Fill(7, shape(2, func(s *model.Shape) {
			s.Type, s.NormTopK = "qwen3_next", false
			s.Layers[1].MoE = false // mlp_only_layers
			s.FFN = 96
		}), Affine(4, 64, checkpoint.BF16)),
		"odd widths": Fill(8, shape(3, func(s *model.Shape) {
			s.Hidden, s.HeadDim, s.Rotary, s.Heads, s.KVHeads = 100, 40, 10, 6, 2
			s.KeyDim, s.ValueDim, s.ExpertFFN, s.SharedFFN, s.Conv = 20, 27, 33, 70, 3
		}), BF16, F32),
		"one key head of attention": Fill(9, shape(4, func(s *model.Shape) { s.Heads, s.KVHeads, s.Experts, s.ExpertsPerToken = 8, 1, 5, 5 }), Affine(6, 64, checkpoint.BF16), Affine(4, 64, checkpoint.BF16)),
	}
}
