package gpu

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"lilypad/worker/checkpoint"
	"lilypad/worker/model"
)

// syntheticName is the shape that Synthetic knows.
const syntheticName = "qwen3.6-35b-a3b"

// Synthetic is a checkpoint without data of the shape that name says, "qwen3.6-35b-a3b" or that with a number of layers
// behind a colon. A Model of it has random weights, always the same ones, that are made where they go: no copy of them
// exists on the host.
func Synthetic(name string) (*checkpoint.Checkpoint, error) {
	base, count, cut := strings.Cut(name, ":")
	layers := 40
	if cut {
		var err error
		if layers, err = strconv.Atoi(count); err != nil || layers < 1 || layers > 40 {
			return nil, fmt.Errorf("synthetic weights of %s layers: want 1 to 40", count)
		}
	}
	if base != syntheticName {
		return nil, fmt.Errorf("there are no synthetic weights of %q: want %s, or that with :LAYERS behind it", base, syntheticName)
	}
	s := model.Shape{
		Type: "qwen3_5_moe", Hidden: 2048, Vocab: 248320, NormEps: 1e-6, Context: 262144,
		Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64, RopeTheta: 1e7,
		KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4,
		Experts: 256, ExpertsPerToken: 8, ExpertFFN: 512, SharedFFN: 512, NormTopK: true,
	}
	for i := range layers {
		l := model.Layer{Mixer: model.DeltaNet, MoE: true}
		if (i+1)%4 == 0 {
			l.Mixer = model.Attention
		}
		s.Layers = append(s.Layers, l)
	}
	ck := &checkpoint.Checkpoint{Name: name, Shape: s}
	fillShape(ck, published)
	return ck, nil
}

// storage makes matrices without data for fillShape; gate is true for routers and shared-expert gates.
type storage func(rows, cols int, gate bool) checkpoint.Matrix

// published is the format of the published 4-bit checkpoints.
func published(rows, cols int, gate bool) checkpoint.Matrix {
	bits := 4
	if gate {
		bits = 8
	}
	return affine(bits, 64, checkpoint.BF16)(rows, cols, gate)
}

func affine(bits, group int, scales checkpoint.DType) storage {
	return func(rows, cols int, _ bool) checkpoint.Matrix {
		return checkpoint.Matrix{Rows: rows, Cols: cols, Type: checkpoint.Affine, Bits: bits, Group: group, ScaleType: scales}
	}
}

// fillShape gives ck matrices without data and random vectors.
func fillShape(ck *checkpoint.Checkpoint, store storage) {
	f := filler{&ck.Shape, store, rand.New(rand.NewPCG(20261130, 0))}
	s, w := &ck.Shape, &ck.Weights
	w.Embed, w.Norm = store(s.Vocab, s.Hidden, false), f.vector(s.Hidden, 1, 0.1)
	w.Head = w.Embed
	if !s.Tied {
		w.Head = store(s.Vocab, s.Hidden, false)
	}
	for _, l := range s.Layers {
		lw := checkpoint.LayerWeights{InputNorm: f.vector(s.Hidden, 1, 0.1), PostNorm: f.vector(s.Hidden, 1, 0.1)}
		if l.Mixer == model.Attention {
			lw.Attn = f.attention()
		} else {
			lw.Delta = f.delta()
		}
		if l.MoE {
			lw.MoE = f.moe()
		} else {
			m := f.mlp(s.FFN)
			lw.MLP = &m
		}
		w.Layers = append(w.Layers, lw)
	}
}

// filler makes the parts of a checkpoint without data.
type filler struct {
	*model.Shape
	store storage
	rng   *rand.Rand
}

func (f *filler) vector(n int, mean, spread float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(mean + spread*f.rng.NormFloat64())
	}
	return v
}

func (f *filler) attention() *checkpoint.AttnWeights {
	heads, kv := f.Heads*f.HeadDim, f.KVHeads*f.HeadDim
	return &checkpoint.AttnWeights{
		Q: f.store(2*heads, f.Hidden, false), K: f.store(kv, f.Hidden, false), V: f.store(kv, f.Hidden, false),
		O: f.store(f.Hidden, heads, false), QNorm: f.vector(f.HeadDim, 1, 0.1), KNorm: f.vector(f.HeadDim, 1, 0.1),
	}
}

func (f *filler) delta() *checkpoint.DeltaWeights {
	values := f.ValueHeads * f.ValueDim
	return &checkpoint.DeltaWeights{
		QKV: f.store(f.ConvChannels(), f.Hidden, false), Z: f.store(values, f.Hidden, false),
		B: f.store(f.ValueHeads, f.Hidden, false), A: f.store(f.ValueHeads, f.Hidden, false), Out: f.store(f.Hidden, values, false),
		Conv: f.vector(f.ConvChannels()*f.Conv, 0, 0.5), ALog: f.vector(f.ValueHeads, 0, 1), DtBias: f.vector(f.ValueHeads, 0, 1),
		Norm: f.vector(f.ValueDim, 1, 0.1),
	}
}

func (f *filler) mlp(width int) checkpoint.MLPWeights {
	return checkpoint.MLPWeights{
		Gate: f.store(width, f.Hidden, false), Up: f.store(width, f.Hidden, false), Down: f.store(f.Hidden, width, false),
	}
}

func (f *filler) moe() *checkpoint.MoEWeights {
	m := &checkpoint.MoEWeights{
		Router: f.store(f.Experts, f.Hidden, true), SharedGate: f.store(1, f.Hidden, true), Shared: f.mlp(f.SharedFFN),
	}
	one := f.mlp(f.ExpertFFN)
	for range f.Experts {
		m.Experts = append(m.Experts, one)
	}
	return m
}
