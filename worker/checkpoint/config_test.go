package checkpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
	"lilypad/worker/model"
)

// One model told in every accepted way has one shape.
func TestConfigForms(t *testing.T) {
	read := func(b *build) model.Shape {
		cfg, err := parseConfig(marshal(b.config))
		if err != nil {
			t.Fatal(err)
		}
		return cfg.shape
	}
	want := read(newBuild())
	if want.Rotary != 16 || want.RopeTheta != 1e6 || !want.NormTopK || want.Count(model.Attention) != 1 || want.ConvChannels() != 192 {
		t.Fatalf("shape %+v", want)
	}
	for _, c := range []struct {
		name string
		edit func(b *build)
	}{
		{"flat", func(b *build) { b.flat("qwen3_5_moe") }},
		{"flat, text only", func(b *build) { b.flat("qwen3_5_moe_text") }},
		{"nested without its model_type", func(b *build) { delete(b.text, "model_type") }},
		{"flat rope settings", func(b *build) {
			delete(b.text, "rope_parameters")
			b.text["rope_theta"], b.text["partial_rotary_factor"], b.text["rope_scaling"] = 1e6, 0.25, nil
		}},
		{"flat rope settings, default scaling", func(b *build) {
			delete(b.text, "rope_parameters")
			b.text["rope_theta"], b.text["rope_scaling"] = 1e6, map[string]any{"type": "default"}
		}},
		{"both, agreeing", func(b *build) { b.text["rope_theta"], b.text["partial_rotary_factor"] = 1e6, 0.25 }},
		{"layer_types wins", func(b *build) {
			b.text["layer_types"], b.text["full_attention_interval"] = []string{"linear_attention", "full_attention"}, 1
		}},
		{"defaults given", func(b *build) {
			for field, v := range map[string]any{"norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []int{}, "hidden_act": "silu",
				"attn_output_gate": true, "output_gate_type": "swish", "attention_bias": false, "tie_word_embeddings": false} {
				b.text[field] = v
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			c.edit(b)
			if d := cmp.Diff(want, read(b)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTied(t *testing.T) {
	for _, c := range []struct {
		name       string
		top, inner any
		want       bool
	}{
		{"neither", nil, nil, false},
		{"top", true, nil, true},
		{"text", nil, true, true},
		{"text wins", true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			b.config["tie_word_embeddings"], b.text["tie_word_embeddings"] = c.top, c.inner
			cfg, err := parseConfig(marshal(b.config))
			if err != nil {
				t.Fatal(err)
			}
			if cfg.shape.Tied != c.want {
				t.Errorf("tied %v, want %v", cfg.shape.Tied, c.want)
			}
		})
	}
}

// FuzzConfig: any bytes give an error of ours or a shape whose numbers fit together.
func FuzzConfig(f *testing.F) {
	f.Add(marshal(newBuild().config))
	flat := newBuild()
	flat.next()
	f.Add(marshal(flat.config))
	quant := newBuild()
	quant.config["quantization"] = map[string]any{"bits": 4, "group_size": 64, "model.layers.0.mlp.gate": map[string]any{"bits": 8}, "lm_head": false}
	f.Add(marshal(quant.config))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := parseConfig(data)
		if err != nil {
			if protocol.CodeOf(err) != protocol.CodeCheckpoint || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error is no sentence of ours: %v", err)
			}
			return
		}
		s := cfg.shape
		if s.Heads%s.KVHeads != 0 || s.ValueHeads%s.KeyHeads != 0 || s.Rotary%2 != 0 || s.Rotary < 2 || s.Rotary > s.HeadDim ||
			s.ExpertsPerToken > s.Experts || len(s.Layers) == 0 || s.Count(model.DeltaNet) == 0 || s.Conv < 2 || s.Vocab < 1 || s.Hidden < 1 {
			t.Fatalf("shape %+v", s)
		}
		if s.Parameters() <= 0 || s.WeightBytes(model.MLX4) <= 0 || s.DecodeFLOPs(s.Context) <= 0 {
			t.Fatalf("arithmetic overflows for %+v", s)
		}
		for _, l := range s.Layers {
			if l.MoE && s.Experts == 0 || !l.MoE && s.FFN == 0 {
				t.Fatalf("layer %+v of %+v", l, s)
			}
		}
		for _, id := range cfg.stopIDs {
			if id < 0 || int(id) >= s.Vocab {
				t.Fatalf("stop id %d", id)
			}
		}
	})
}
