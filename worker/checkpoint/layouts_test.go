package checkpoint

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// Every layout of one model gives the same weights, bit for bit.
func TestLayouts(t *testing.T) {
	want := plainDump(newBuild())
	for _, c := range []struct {
		name string
		make func(b *build) fstest.MapFS
	}{
		{"mlx", func(b *build) fstest.MapFS { return b.fs() }},
		{"mlx, experts one by one", func(b *build) fstest.MapFS { b.splitExperts(); return b.fs() }},
		{"mlx, sharded", func(b *build) fstest.MapFS { return b.sharded(3) }},
		{"hugging face", func(b *build) fstest.MapFS { b.huggingFace(); return b.fs() }},
		{"hugging face, sharded", func(b *build) fstest.MapFS { b.huggingFace(); return b.sharded(5) }},
		{"hugging face, experts one by one", func(b *build) fstest.MapFS { b.splitExperts(); b.huggingFace(); return b.fs() }},
		{"text only, flat", func(b *build) fstest.MapFS { b.flat("qwen3_5_moe_text"); return b.fs() }},
		{"vision and mtp are skipped", func(b *build) fstest.MapFS {
			for _, name := range []string{"vision_tower.patch_embed.weight", "model.visual.blocks.0.weight", "mtp.fc.weight", "language_model.mtp.norm.weight"} {
				b.put(name, []int{3}, func(int) float32 { return 9 })
			}
			return b.fs()
		}},
		{"fp32 and f16 tensors", func(b *build) fstest.MapFS {
			b.widen("layers.0.linear_attn.A_log", F32)
			b.widen("layers.0.mlp.switch_mlp.up_proj.weight", F32)
			return b.fs()
		}},
		{"qwen3_next by mlx", func(b *build) fstest.MapFS { b.next(); return b.fs() }},
		{"qwen3_next raw", func(b *build) fstest.MapFS { b.next(); b.splitExperts(); b.huggingFace(); return b.fs() }},
		{"qwen3_next raw with converted conv1d", func(b *build) fstest.MapFS {
			b.next()
			b.splitExperts()
			b.huggingFace()
			name := "model.layers.0.linear_attn.conv1d.weight"
			conv := b.tensors[name]
			conv.shape = []int{192, 4, 1}
			b.tensors[name] = conv
			return b.fs()
		}},
		{"qwen3_next raw, experts stacked by transformers 5", func(b *build) fstest.MapFS { b.next(); b.huggingFace(); return b.fs() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			m := c.make(b)
			opened := mustOpen(t, m, Options{})
			sameWeights(t, dump(opened), want)
		})
	}
}

// widen stores a bf16 tensor in a wider type.
func (b *build) widen(name string, to DType) {
	t := b.tensors[mlxPrefix+name]
	v := make([]float32, len(t.data)/2)
	decode(BF16, t.data, v)
	w := rawTensor{to.String(), t.shape, make([]byte, len(v)*to.Size())}
	for i, x := range v {
		encode(to, w.data, i, x)
	}
	b.tensors[mlxPrefix+name] = w
}

// Each bit width and group size, stacked and not, fused and not, means scale*code + bias.
func TestAffineWidths(t *testing.T) {
	for _, bits := range bitWidths {
		for _, group := range groupSizes {
			t.Run(fmt.Sprintf("%d bits, groups of %d", bits, group), func(t *testing.T) {
				layouts := []string{"stacked", "one by one", "qwen3_next"}
				if group != 64 {
					layouts = layouts[:1]
				}
				for _, layout := range layouts {
					b := newBuild()
					meaning := b.quantize(func(string) (int, int) { return bits, group })
					want := affineDump(newBuild(), meaning)
					switch layout {
					case "one by one":
						b.splitExperts()
					case "qwen3_next":
						quantization := b.config["quantization"]
						b.next()
						b.config["quantization"] = quantization
					}
					c := mustOpen(t, b.fs(), Options{})
					if m := c.Weights.Layers[0].MoE.Experts[3].Down; m.Bits != bits || m.Group != group || m.Type != Affine {
						t.Errorf("%s: an expert has %d bits and groups of %d", layout, m.Bits, m.Group)
					}
					sameWeights(t, dump(c), want)
				}
			})
		}
	}
}

// affineDump replaces the quantised modules of a plain dump by their meaning.
func affineDump(plain *build, meaning map[string][]float32) map[string][]float32 {
	out := plainDump(plain)
	for module, v := range meaning {
		name := strings.TrimPrefix(strings.TrimPrefix(module, mlxPrefix), "language_model.")
		if before, after, ok := strings.Cut(name, "switch_mlp."); ok {
			for e := range 4 {
				out[fmt.Sprintf("%sexperts.%d.%s", before, e, after)] = v[e*len(v)/4 : (e+1)*len(v)/4]
			}
			continue
		}
		out[name] = v
	}
	return out
}

// Modules differ: entries with and without prefix, true, a mode, none at all; and one module is not quantised.
func TestAffineOverrides(t *testing.T) {
	b := newBuild()
	width := func(module string) (int, int) {
		switch {
		case strings.HasSuffix(module, ".gate"):
			return 8, 64
		case strings.HasSuffix(module, "q_proj"):
			return 3, 32
		case strings.HasSuffix(module, "k_proj"):
			return 6, 128 // no entry: the shapes tell
		case strings.HasSuffix(module, "o_proj"):
			return 0, 0
		}
		return 4, 64
	}
	meaning := b.quantize(width)
	b.config["quantization"] = map[string]any{
		"group_size": 64, "bits": 4, "mode": "affine",
		mlxPrefix + "layers.0.mlp.gate":                         map[string]any{"group_size": 64, "bits": 8},
		"model.layers.1.mlp.gate":                               map[string]any{"bits": 8},
		mlxPrefix + "layers.1.self_attn.q_proj":                 map[string]any{"group_size": 32, "bits": 3, "mode": "affine"},
		mlxPrefix + "layers.1.self_attn.o_proj":                 false,
		mlxPrefix + "layers.1.self_attn.v_proj":                 true,
		"vision_tower.blocks.0.attn.qkv":                        map[string]any{"mode": "mxfp4"},
		"model.language_model.layers.0.linear_attn.in_proj_qkv": map[string]any{},
	}
	c := mustOpen(t, b.fs(), Options{})
	sameWeights(t, dump(c), affineDump(newBuild(), meaning))
	a := c.Weights.Layers[1].Attn
	if a.Q.Bits != 3 || a.Q.Group != 32 || a.K.Bits != 6 || a.K.Group != 128 || a.O.Type != BF16 {
		t.Errorf("q has %d bits in %d, k %d in %d, o is %v", a.Q.Bits, a.Q.Group, a.K.Bits, a.K.Group, a.O.Type)
	}
}

// A dense, tied model: the head is the embedding and a stored lm_head is dropped.
func TestDenseTied(t *testing.T) {
	b := newBuild()
	want := plainDump(newBuild())
	b.rename(func(name string) string {
		if strings.HasSuffix(name, ".mlp.gate.weight") || strings.Contains(name, "shared_expert_gate") || strings.Contains(name, "switch_mlp") {
			return ""
		}
		return strings.Replace(name, "shared_expert.", "", 1)
	})
	b.config["model_type"], b.text["model_type"] = "qwen3_5", "qwen3_5_text"
	delete(b.text, "num_experts")
	b.text["intermediate_size"], b.text["tie_word_embeddings"] = 128, true
	c := mustOpen(t, b.fs(), Options{})
	got := dump(c)
	if len(got) != 28 {
		t.Errorf("%d weights, want 28", len(got))
	}
	for name, v := range got {
		from := strings.Replace(name, ".mlp.", ".mlp.shared_expert.", 1)
		if name == "lm_head" {
			from = "embed_tokens"
		}
		sameWeights(t, map[string][]float32{name: v}, map[string][]float32{name: want[from]})
	}
	if &c.Weights.Head.Data[0] != &c.Weights.Embed.Data[0] {
		t.Error("the tied head is no view of the embedding")
	}
}

// mlp_only_layers and decoder_sparse_step say which layers are dense.
func TestSparseLayers(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields map[string]any
		moe    string
	}{
		{"all", map[string]any{}, "1111"},
		{"step 2", map[string]any{"decoder_sparse_step": 2}, "0101"},
		{"mlp only", map[string]any{"mlp_only_layers": []int{0, 3}}, "0110"},
		{"both", map[string]any{"decoder_sparse_step": 2, "mlp_only_layers": []int{1}}, "0001"},
		{"no experts", map[string]any{"num_experts": 0}, "0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			b.flat("qwen3_next")
			b.config["num_hidden_layers"], b.config["intermediate_size"] = 4, 96
			for k, v := range c.fields {
				b.config[k] = v
			}
			cfg, err := parseConfig(marshal(b.config))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, l := range cfg.shape.Layers {
				got.WriteString(map[bool]string{true: "1", false: "0"}[l.MoE])
			}
			if got.String() != c.moe {
				t.Errorf("sparse layers %s, want %s", got.String(), c.moe)
			}
			if dense := strings.Contains(c.moe, "0"); (cfg.shape.FFN == 96) != dense {
				t.Errorf("dense width %d", cfg.shape.FFN)
			}
		})
	}
}
