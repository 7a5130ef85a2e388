package checkpoint

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// rawTensor is a tensor as a file holds it.
type rawTensor struct {
	dtype string
	shape []int
	data  []byte
}

// build is a checkpoint being made for a test: config.json as a map, tensors by their names in the file, other files.
type build struct {
	config  map[string]any
	text    map[string]any // text_config, or config itself
	tensors map[string]rawTensor
	files   map[string]string
}

const mlxPrefix = "language_model.model."

// newBuild makes a random model of two layers (DeltaNet, attention) with 4 experts in MLX's layout, unquantised bf16.
func newBuild() *build {
	b := &build{tensors: maps.Clone(baseTensors()), files: map[string]string{
		"tokenizer.json":         `{"added_tokens":[{"id":60,"content":"<|endoftext|>"},{"id":61,"content":"<|im_end|>"}],"model":{}}`,
		"tokenizer_config.json":  `{"eos_token":"<|im_end|>","bos_token":null}`,
		"generation_config.json": `{"eos_token_id":[61,60],"do_sample":true,"temperature":0.5,"top_k":7,"top_p":0.9}`,
	}}
	b.text = map[string]any{
		"model_type": "qwen3_5_moe_text", "hidden_size": 128, "num_hidden_layers": 2, "full_attention_interval": 2, "vocab_size": 64,
		"rms_norm_eps": 1e-6, "max_position_embeddings": 512, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
		"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 32,
		"linear_conv_kernel_dim": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
		"shared_expert_intermediate_size": 128, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
	}
	b.config = map[string]any{"model_type": "qwen3_5_moe", "text_config": b.text, "eos_token_id": 60}
	return b
}

// baseTensors are the tensors of newBuild, made once: nothing writes into a tensor's data or shape. Every gain is 1 + k/128,
// so that w = gain-1 is exact in bf16 too.
var baseTensors = sync.OnceValue(func() map[string]rawTensor {
	rng := rand.New(rand.NewPCG(1, 2))
	b := &build{tensors: make(map[string]rawTensor)}
	normal := func(name string, shape ...int) {
		b.put(name, shape, func(int) float32 { return float32(rng.NormFloat64()) / 8 })
	}
	gains := func(name string, n int) {
		b.put(name, []int{n}, func(int) float32 { return 1 + float32(rng.IntN(65)-32)/128 })
	}
	normal("language_model.lm_head.weight", 64, 128)
	normal(mlxPrefix+"embed_tokens.weight", 64, 128)
	gains(mlxPrefix+"norm.weight", 128)
	for i := range 2 {
		p := fmt.Sprintf("%slayers.%d.", mlxPrefix, i)
		gains(p+"input_layernorm.weight", 128)
		gains(p+"post_attention_layernorm.weight", 128)
		if i == 0 {
			d := p + "linear_attn."
			normal(d+"in_proj_qkv.weight", 2*2*16+4*32, 128)
			normal(d+"in_proj_z.weight", 4*32, 128)
			normal(d+"in_proj_b.weight", 4, 128)
			normal(d+"in_proj_a.weight", 4, 128)
			normal(d+"out_proj.weight", 128, 4*32)
			normal(d+"conv1d.weight", 192, 4, 1)
			normal(d+"A_log", 4)
			normal(d+"dt_bias", 4)
			gains(d+"norm.weight", 32)
		} else {
			a := p + "self_attn."
			normal(a+"q_proj.weight", 2*2*64, 128)
			normal(a+"k_proj.weight", 64, 128)
			normal(a+"v_proj.weight", 64, 128)
			normal(a+"o_proj.weight", 128, 128)
			gains(a+"q_norm.weight", 64)
			gains(a+"k_norm.weight", 64)
		}
		m := p + "mlp."
		normal(m+"gate.weight", 4, 128)
		normal(m+"shared_expert_gate.weight", 1, 128)
		for _, part := range []string{"gate_proj", "up_proj", "down_proj"} {
			normal(m+"switch_mlp."+part+".weight", 4, 128, 128)
			normal(m+"shared_expert."+part+".weight", 128, 128)
		}
	}
	return b.tensors
})

// put adds a bf16 tensor.
func (b *build) put(name string, shape []int, f func(i int) float32) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := rawTensor{"BF16", shape, make([]byte, 2*n)}
	for i := range n {
		encode(BF16, t.data, i, f(i))
	}
	b.tensors[name] = t
}

// rename moves every tensor to f(name); an empty name drops it.
func (b *build) rename(f func(string) string) {
	out := make(map[string]rawTensor)
	for name, t := range b.tensors {
		if to := f(name); to != "" {
			out[to] = t
		}
	}
	b.tensors = out
}

func (b *build) pop(name string) rawTensor {
	t, ok := b.tensors[name]
	if !ok {
		panic("no tensor " + name)
	}
	delete(b.tensors, name)
	return t
}

// huggingFace turns MLX's layout into the raw one: names, conv1d's axes, norms without their +1, gate and up in one.
func (b *build) huggingFace() {
	for _, name := range slices.Sorted(maps.Keys(b.tensors)) {
		switch {
		case strings.HasSuffix(name, "conv1d.weight"):
			t := b.tensors[name]
			t.shape = []int{t.shape[0], 1, t.shape[1]}
			b.tensors[name] = t
		case strings.HasSuffix(name, "norm.weight") && !strings.HasSuffix(name, "linear_attn.norm.weight"):
			b.shift(name, -1)
		case strings.HasSuffix(name, "switch_mlp.gate_proj.weight"):
			m := strings.TrimSuffix(name, "switch_mlp.gate_proj.weight")
			gate, up, down := b.pop(name), b.pop(m+"switch_mlp.up_proj.weight"), b.pop(m+"switch_mlp.down_proj.weight")
			both := rawTensor{gate.dtype, []int{gate.shape[0], 2 * gate.shape[1], gate.shape[2]}, nil}
			size := len(gate.data) / gate.shape[0]
			for e := range gate.shape[0] {
				both.data = append(both.data, gate.data[e*size:][:size]...)
				both.data = append(both.data, up.data[e*size:][:size]...)
			}
			b.tensors[m+"experts.gate_up_proj"], b.tensors[m+"experts.down_proj"] = both, down
		}
	}
	b.rename(func(name string) string {
		if rest, ok := strings.CutPrefix(name, mlxPrefix); ok {
			return "model.language_model." + rest
		}
		return strings.TrimPrefix(name, "language_model.")
	})
}

// shift adds to every element of a bf16 vector.
func (b *build) shift(name string, by float32) {
	t := b.tensors[name]
	v := make([]float32, len(t.data)/2)
	decode(BF16, t.data, v)
	b.put(name, t.shape, func(i int) float32 { return v[i] + by })
}

// splitExperts replaces MLX's stacks by one module per expert, scales and biases too.
func (b *build) splitExperts() {
	for _, name := range slices.Sorted(maps.Keys(b.tensors)) {
		before, after, ok := strings.Cut(name, "switch_mlp.")
		if !ok {
			continue
		}
		t := b.pop(name)
		size := len(t.data) / t.shape[0]
		for e := range t.shape[0] {
			b.tensors[fmt.Sprintf("%sexperts.%d.%s", before, e, after)] = rawTensor{t.dtype, t.shape[1:], t.data[e*size:][:size]}
		}
	}
}

// next turns the build into a qwen3_next one: flat config, fused projections grouped by key head (2 groups, r = 2).
func (b *build) next() {
	b.flat("qwen3_next")
	for _, name := range slices.Sorted(maps.Keys(b.tensors)) {
		before, after, ok := strings.Cut(name, "in_proj_qkv.")
		if !ok {
			continue
		}
		qkv, z := b.pop(name), b.pop(before+"in_proj_z."+after)
		bb, a := b.pop(before+"in_proj_b."+after), b.pop(before+"in_proj_a."+after)
		row := func(t rawTensor, r int) []byte { n := len(t.data) / t.shape[0]; return t.data[r*n : (r+1)*n] }
		qkvz := rawTensor{qkv.dtype, []int{qkv.shape[0] + z.shape[0], qkv.shape[1]}, nil}
		ba := rawTensor{bb.dtype, []int{8, bb.shape[1]}, nil}
		for k := range 2 {
			for i := range 16 { // q
				qkvz.data = append(qkvz.data, row(qkv, k*16+i)...)
			}
			for i := range 16 { // k
				qkvz.data = append(qkvz.data, row(qkv, 32+k*16+i)...)
			}
			for i := range 64 { // v of heads 2k and 2k+1
				qkvz.data = append(qkvz.data, row(qkv, 64+k*64+i)...)
			}
			for i := range 64 {
				qkvz.data = append(qkvz.data, row(z, k*64+i)...)
			}
			for i := range 2 {
				ba.data = append(ba.data, row(bb, 2*k+i)...)
			}
			for i := range 2 {
				ba.data = append(ba.data, row(a, 2*k+i)...)
			}
		}
		b.tensors[before+"in_proj_qkvz."+after], b.tensors[before+"in_proj_ba."+after] = qkvz, ba
	}
}

// flat puts the text model's fields at the top and renames the tensors to the prefix "model.".
func (b *build) flat(modelType string) {
	text := maps.Clone(b.text)
	text["model_type"], text["eos_token_id"] = modelType, b.config["eos_token_id"]
	b.config, b.text = text, text
	b.rename(func(name string) string {
		if rest, ok := strings.CutPrefix(name, mlxPrefix); ok {
			return "model." + rest
		}
		return strings.TrimPrefix(name, "language_model.")
	})
}

// quantize replaces linear modules by random affine ones: width gives bits and group of a module, 0 leaves it. The rows are
// packed bit by bit, independently of pack and unpack. It returns what each module's rows mean.
func (b *build) quantize(width func(module string) (bits, group int)) map[string][]float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	meaning := make(map[string][]float32)
	for _, name := range slices.Sorted(maps.Keys(b.tensors)) {
		module, ok := strings.CutSuffix(name, ".weight")
		t := b.tensors[name]
		if !ok || strings.Contains(name, "norm") || strings.Contains(name, "conv1d") {
			continue
		}
		bits, group := width(module)
		if bits == 0 {
			continue
		}
		cols := t.shape[len(t.shape)-1]
		rows := len(t.data) / 2 / cols
		lead := t.shape[:len(t.shape)-1]
		w := rawTensor{"U32", append(slices.Clone(lead), cols*bits/32), nil}
		s := rawTensor{"BF16", append(slices.Clone(lead), cols/group), make([]byte, 2*rows*cols/group)}
		z := rawTensor{"BF16", s.shape, make([]byte, len(s.data))}
		scales, biases := make([]float32, rows*cols/group), make([]float32, rows*cols/group)
		for i := range scales {
			encode(BF16, s.data, i, float32(rng.NormFloat64()))
			encode(BF16, z.data, i, float32(rng.NormFloat64()))
		}
		decode(BF16, s.data, scales)
		decode(BF16, z.data, biases)
		for r := range rows {
			row := make([]byte, cols*bits/8)
			for c := range cols {
				q := rng.IntN(1 << bits)
				for i := range bits {
					at := c*bits + i
					row[at/8] |= byte(q>>i&1) << (at % 8)
				}
				g := (r*cols + c) / group
				product := float32(float64(scales[g]) * float64(q)) // exact in float64, then rounded once
				meaning[module] = append(meaning[module], product+biases[g])
			}
			w.data = append(w.data, row...)
		}
		b.tensors[name], b.tensors[module+".scales"], b.tensors[module+".biases"] = w, s, z
	}
	b.config["quantization"] = map[string]any{"group_size": 64, "bits": 4}
	return meaning
}
