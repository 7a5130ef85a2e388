package model

import "testing"

// qwen35B is Qwen3.6-35B-A3B, for which model-spec.md section 8 of the design's references gives every figure below.
func qwen35B() *Shape {
	s := &Shape{
		Type: "qwen3_5_moe", Hidden: 2048, Vocab: 248320, Context: 262144,
		Heads: 16, KVHeads: 2, HeadDim: 256, Rotary: 64,
		KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4,
		Experts: 256, ExpertsPerToken: 8, ExpertFFN: 512, SharedFFN: 512, NormTopK: true,
	}
	for i := range 40 {
		l := Layer{Mixer: DeltaNet, MoE: true}
		if (i+1)%4 == 0 {
			l.Mixer = Attention
		}
		s.Layers = append(s.Layers, l)
	}
	return s
}

func TestArithmetic35B(t *testing.T) {
	s := qwen35B()
	const oneExpert = 3 * 2048 * 512
	for _, c := range []struct {
		name      string
		got, want int64
	}{
		{"attention mixer", s.attention().total(), 27_263_488},
		{"delta mixer", s.deltaNet().total(), 33_718_464},
		{"256 experts", s.feedForward(s.Layers[0], 256).linear - oneExpert, 805_306_368},
		{"router and shared gate", s.feedForward(s.Layers[0], 256).gate, 524_288 + 2048},
		{"embedding", s.matrix().total(), 508_559_360},
		{"embedding bytes", s.matrix().bytes(MLX4), 286_064_640},
		{"parameters", s.Parameters(), 34_660_610_688},
		{"bytes read per decoded token", s.DecodeBytes(MLX4), 1_669_562_496},
		{"kv bytes per token, bf16", s.KVBytes(2), 20_480},
		{"kv bytes per token, fp32", s.KVBytes(4), 40_960},
		{"recurrent state", s.RecurrentBytes(), 60 << 20},
		{"conv windows, bf16", s.ConvBytes(2), 30 * 3 * 8192 * 2},
		{"recurrence flops", s.recurrenceFLOPs(), 7 * 15_728_640},
		{"attention flops per context token", s.attentionFLOPs(), 163_840},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// Figures that the specification gives rounded.
func TestRoundedFigures35B(t *testing.T) {
	s := qwen35B()
	for _, c := range []struct {
		name            string
		got, want, unit float64
	}{
		{"all weights, GB", float64(s.WeightBytes(MLX4)) / 1e9, 19.509, 0.001},
		{"weights per decoded token, 1e9", float64(s.DecodeParameters()) / 1e9, 2.946, 0.001},
		{"state per session, MiB", float64(s.StateBytes(2)) / (1 << 20), 61.4, 0.1},
		{"decode GFLOP without attention and recurrence", float64(s.DecodeFLOPs(0)-s.recurrenceFLOPs()) / 1e9, 5.89, 0.01},
		{"prefill GFLOP likewise", float64(s.PrefillFLOPs(0)-s.recurrenceFLOPs()) / 1e9, 4.88, 0.01},
		{"attention GFLOP at 32k", float64(s.DecodeFLOPs(32768)-s.DecodeFLOPs(0)) / 1e9, 5.4, 0.1},
	} {
		if d := c.got - c.want; d > c.unit/2 || d < -c.unit/2 {
			t.Errorf("%s: %g, want %g within %g", c.name, c.got, c.want, c.unit/2)
		}
	}
}

func TestDenseTiedCountsTheTableOnce(t *testing.T) {
	s := &Shape{Hidden: 8, Vocab: 10, FFN: 12, Heads: 2, KVHeads: 1, HeadDim: 4, Layers: []Layer{{Mixer: Attention}}}
	// mixer: q+gate 16x8, k and v 4x8 each, o 8x8, two gains of 4; MLP 3x8x12; norms 3x8; table 10x8.
	const body = 16*8 + 2*4*8 + 8*8 + 2*4 + 3*8*12 + 3*8
	if got := s.Parameters(); got != body+2*80 {
		t.Errorf("untied: %d, want %d", got, body+2*80)
	}
	s.Tied = true
	if got := s.Parameters(); got != body+80 {
		t.Errorf("tied: %d, want %d", got, body+80)
	}
	if got := s.DecodeParameters(); got != body+80 {
		t.Errorf("decode: %d, want %d", got, body+80)
	}
}
