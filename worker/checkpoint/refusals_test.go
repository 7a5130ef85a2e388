package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"lilypad/protocol"
)

// refusal is a way to break a good checkpoint and the sentence that it earns.
type refusal struct {
	name   string
	spoil  func(b *build)                 // before the files are written
	damage func(b *build, m fstest.MapFS) // after
	want   string
}

func TestRefusals(t *testing.T) {
	text := func(field string, v any) func(*build) { return func(b *build) { b.text[field] = v } }
	drop := func(field string) func(*build) { return func(b *build) { delete(b.text, field) } }
	file := func(name, content string) func(*build, fstest.MapFS) {
		return func(_ *build, m fstest.MapFS) { m[name] = &fstest.MapFile{Data: []byte(content)} }
	}
	remove := func(name string) func(*build, fstest.MapFS) {
		return func(_ *build, m fstest.MapFS) { delete(m, name) }
	}
	quant := func(b *build) { b.quantize(func(string) (int, int) { return 4, 64 }) }
	const l0, l1 = mlxPrefix + "layers.0.", mlxPrefix + "layers.1."

	for _, c := range []refusal{
		// Files.
		{"no config", nil, remove("config.json"), `test has no config.json; give the directory that holds the model's config.json`},
		{"gguf instead of config", nil, func(_ *build, m fstest.MapFS) {
			delete(m, "config.json")
			m["q4.gguf"] = &fstest.MapFile{}
		}, `test holds the GGUF file q4.gguf, which Lilypad does not read; give a directory with the model's safetensors files and config.json`},
		{"no tokenizer", nil, remove("tokenizer.json"), `test has no tokenizer.json; download it from where the weights came from`},
		{"tokenizer cut short", nil, file("tokenizer.json", "{"), `tokenizer.json is broken JSON: it ends too early; download it again`},
		{"pipe for config", nil, func(_ *build, m fstest.MapFS) { m["config.json"] = &fstest.MapFile{Mode: fs.ModeNamedPipe} },
			`config.json is no regular file`},
		{"no weights", nil, remove(singleFile), `test has neither model.safetensors nor model.safetensors.index.json; download the weights`},
		{"gguf instead of weights", nil, func(_ *build, m fstest.MapFS) {
			delete(m, singleFile)
			m["q4.gguf"] = &fstest.MapFile{}
		}, `test holds the GGUF file q4.gguf, which Lilypad does not read; give a directory with the model's safetensors files`},
		{"shards without index", nil, func(_ *build, m fstest.MapFS) {
			delete(m, singleFile)
			m[shardName(0, 2)] = &fstest.MapFile{}
		}, `test holds model-00001-of-00002.safetensors but neither model.safetensors nor model.safetensors.index.json; download the index`},
		{"lfs pointer for weights", nil, file(singleFile, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
			`model.safetensors is a Git LFS pointer of 64 bytes instead of the file itself; run git lfs pull in the model's directory`},
		{"lfs pointer for tokenizer", nil, file("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n"),
			`tokenizer.json is a Git LFS pointer of 43 bytes instead of the file itself; run git lfs pull in the model's directory`},
		{"gguf named safetensors", nil, file(singleFile, "GGUF\x03\x00\x00\x00"), `model.safetensors is a GGUF file under another name, which Lilypad does not read`},
		{"empty weights", nil, file(singleFile, ""), `model.safetensors is cut short: it has 0 bytes, a safetensors file has at least 8; download it again`},
		{"truncated weights", nil, func(_ *build, m fstest.MapFS) { m[singleFile].Data = m[singleFile].Data[:600000] },
			`model.safetensors: tensor "language_model.model.layers.0.mlp.switch_mlp.up_proj.weight" ends at byte 644176 of 595303: the file is cut short, download it again`},

		// config.json.
		{"broken config", nil, file("config.json", "{"), `config.json is broken JSON: unexpected end of JSON input`},
		{"other model", func(b *build) { b.config["model_type"] = "llama" }, nil,
			`config.json: model_type is "llama"; Lilypad runs qwen3_5_moe, qwen3_5 and qwen3_next`},
		{"two families", text("model_type", "qwen3_5_text"), nil, `config.json: model_type is "qwen3_5_moe" but text_config's is "qwen3_5_text"`},
		{"missing number", drop("hidden_size"), nil, `config.json: hidden_size is missing`},
		{"string for a number", text("hidden_size", "128"), nil, `config.json: hidden_size is a JSON string, want int`},
		{"fraction", text("hidden_size", 128.5), nil, `config.json: hidden_size is a JSON number 128.5, want int`},
		{"absurd width", text("hidden_size", 1<<40), nil, `config.json: hidden_size is 1099511627776, want 1 to 131072`},
		{"negative layers", text("num_hidden_layers", -1), nil, `config.json: num_hidden_layers is -1, want 1 to 1024`},
		{"kv heads", text("num_key_value_heads", 3), nil, `config.json: num_key_value_heads is 3, which does not divide num_attention_heads 2`},
		{"value heads", text("linear_num_key_heads", 3), nil, `config.json: linear_num_key_heads is 3, which does not divide linear_num_value_heads 4`},
		{"odd rotary", text("rope_parameters", map[string]any{"rope_theta": 1e6, "partial_rotary_factor": 0.05}), nil,
			`config.json: partial_rotary_factor 0.05 of head_dim 64 gives 3 rotary dims, want an even number of at least 2`},
		{"yarn", text("rope_scaling", map[string]any{"rope_type": "yarn", "factor": 4.0}), nil,
			`config.json: rope_scaling has rope_type "yarn", only "default" runs; remove it to use the model's own context length`},
		{"no theta", drop("rope_parameters"), nil, `config.json: rope_theta is missing`},
		{"two thetas", text("rope_theta", 5e6), nil, `config.json: rope_theta is both 5e+06 and 1e+06`},
		{"no output gate", text("attn_output_gate", false), nil, `config.json: attn_output_gate is false, want true`},
		{"sigmoid gate", text("output_gate_type", "sigmoid"), nil, `config.json: output_gate_type is "sigmoid", want "swish" or "silu"`},
		{"gelu", text("hidden_act", "gelu"), nil, `config.json: hidden_act is "gelu", want "silu"`},
		{"attention bias", text("attention_bias", true), nil, `config.json: attention_bias is true, want false`},
		{"layer count", text("layer_types", []string{"full_attention"}), nil, `config.json: layer_types has 1 entries, num_hidden_layers is 2`},
		{"layer kind", text("layer_types", []string{"linear_attention", "sliding_attention"}), nil,
			`config.json: layer_types[1] is "sliding_attention", want "linear_attention" or "full_attention"`},
		{"only attention", text("full_attention_interval", 1), nil, `config.json: none of the 2 layers is linear_attention`},
		{"top k", text("num_experts_per_tok", 5), nil, `config.json: num_experts_per_tok is 5, more than num_experts 4`},
		{"norm_topk_prob", text("norm_topk_prob", false), nil, `config.json: norm_topk_prob is false, want true for qwen3_5_moe`},
		{"mlp only", text("mlp_only_layers", []int{2}), nil, `config.json: mlp_only_layers names layer 2 of 2`},
		{"no ffn", text("mlp_only_layers", []int{1}), nil, `config.json: intermediate_size is missing`},
		{"eos beyond vocabulary", func(b *build) { b.config["eos_token_id"] = []int{60, 64} }, nil, `config.json: eos_token_id is 64, want 0 to 63`},
		{"eos of no known form", func(b *build) { b.config["eos_token_id"] = "x" }, nil,
			`config.json: eos_token_id is neither a token id nor a list of them`},
		{"fp8", func(b *build) { b.config["quantization_config"] = map[string]any{"quant_method": "fp8"} }, nil,
			`config.json: quantization_config has quant_method "fp8"; Lilypad runs MLX affine or unquantised checkpoints`},
		{"mxfp4", func(b *build) {
			b.config["quantization"] = map[string]any{"mode": "mxfp4", "bits": 4, "group_size": 32}
		}, nil,
			`config.json: quantization has mode "mxfp4", only "affine" runs`},
		{"mxfp4 for one module", func(b *build) {
			b.config["quantization"] = map[string]any{"bits": 4, "group_size": 64, l0 + "mlp.gate": map[string]any{"mode": "mxfp8"}}
		}, nil, `config.json: quantization.language_model.model.layers.0.mlp.gate has mode "mxfp8", only "affine" runs`},
		{"7 bits", func(b *build) { b.config["quantization"] = map[string]any{"bits": 7, "group_size": 64} }, nil,
			`config.json: quantization has bits 7, want one of [2 3 4 5 6 8]`},
		{"groups of 48", func(b *build) { b.config["quantization"] = map[string]any{"bits": 4, "group_size": 48} }, nil,
			`config.json: quantization has group_size 48, want one of [32 64 128]`},

		// Tensors.
		{"missing tensor", func(b *build) { b.pop(l1 + "self_attn.k_proj.weight") }, nil,
			`model.safetensors has no tensor "language_model.model.layers.1.self_attn.k_proj.weight"`},
		{"missing expert", func(b *build) { b.splitExperts(); b.pop(l0 + "mlp.experts.2.up_proj.weight") }, nil,
			`model.safetensors has no tensor "language_model.model.layers.0.mlp.experts.2.up_proj.weight"`},
		{"unknown tensor", func(b *build) { b.put("audio_tower.weight", []int{1}, func(int) float32 { return 0 }) }, nil,
			`model.safetensors: tensor "audio_tower.weight" is no part of a qwen3_5_moe text model`},
		{"one tensor too many", func(b *build) { b.put(l0+"self_attn.q_norm.weight", []int{1}, func(int) float32 { return 0 }) }, nil,
			`model.safetensors: tensor "language_model.model.layers.0.self_attn.q_norm.weight" is no part of a qwen3_5_moe text model of this shape`},
		{"a layer too many", func(b *build) {
			b.put(mlxPrefix+"layers.2.a", []int{1}, func(int) float32 { return 0 })
			b.put(mlxPrefix+"layers.2.b", []int{1}, func(int) float32 { return 0 })
		}, nil, `model.safetensors: tensor "language_model.model.layers.2.a" and 1 more are no part of a qwen3_5_moe text model of this shape`},
		{"one tensor under two prefixes", func(b *build) { b.tensors["model.norm.weight"] = b.tensors[mlxPrefix+"norm.weight"] }, nil,
			`model.safetensors: tensor "model.norm.weight" is also in model.safetensors as "language_model.model.norm.weight"`},
		{"wrong shape", func(b *build) { b.put(l1+"self_attn.k_proj.weight", []int{32, 128}, func(int) float32 { return 0 }) }, nil,
			`model.safetensors: tensor "language_model.model.layers.1.self_attn.k_proj.weight" has the shape [32 128], want [64 128]`},
		{"wrong vocabulary", text("vocab_size", 65), nil,
			`model.safetensors: tensor "language_model.model.embed_tokens.weight" has the shape [64 128], want [65 128]`},
		{"wrong norm", func(b *build) { b.put(mlxPrefix+"norm.weight", []int{127}, func(int) float32 { return 1 }) }, nil,
			`model.safetensors: tensor "language_model.model.norm.weight" has the shape [127], want [128]`},
		{"wrong dtype", func(b *build) {
			b.tensors[l1+"self_attn.k_proj.weight"] = rawTensor{"F8_E4M3", []int{64, 128}, make([]byte, 64*128)}
		}, nil, `model.safetensors: tensor "language_model.model.layers.1.self_attn.k_proj.weight" is F8_E4M3 without scales, want BF16, F16 or F32`},
		{"wrong conv", func(b *build) {
			b.put(l0+"linear_attn.conv1d.weight", []int{192, 3, 1}, func(int) float32 { return 0 })
		}, nil,
			`model.safetensors: tensor "language_model.model.layers.0.linear_attn.conv1d.weight" has the shape [192 3 1], want [192 1 4] or [192 4 1]`},
		{"norms never shifted", func(b *build) { b.shift(l0+"input_layernorm.weight", -1); b.shift(l1+"input_layernorm.weight", -1) }, nil,
			`model.safetensors: the tensors language_model.model.layers.*.input_layernorm.weight have the mean gain 0.009, want 0.5 to 1.5: the files were converted with the norms' +1 missing or applied twice`},
		{"norms shifted twice", func(b *build) {
			b.huggingFace()
			b.shift("model.language_model.layers.0.input_layernorm.weight", 1)
			b.shift("model.language_model.layers.1.input_layernorm.weight", 1)
		}, nil, `model.safetensors: the tensors model.language_model.layers.*.input_layernorm.weight have the mean gain 2.009, want 0.5 to 1.5: the files were converted with the norms' +1 missing or applied twice`},

		// Quantised tensors.
		{"scales without quantization", func(b *build) { quant(b); delete(b.config, "quantization") }, nil,
			`model.safetensors: tensor "language_model.model.embed_tokens.scales" exists but config.json has no quantization`},
		{"no biases", func(b *build) { quant(b); b.pop(l0 + "mlp.gate.biases") }, nil,
			`model.safetensors has no tensor "language_model.model.layers.0.mlp.gate.biases"`},
		{"bits against the entry", func(b *build) {
			quant(b)
			b.config["quantization"].(map[string]any)[l0+"mlp.gate"] = map[string]any{"bits": 8, "group_size": 64}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.weight" is packed with 4 bits, config.json's quantization says 8`},
		{"group against the entry", func(b *build) {
			quant(b)
			b.config["quantization"].(map[string]any)[l0+"mlp.gate"] = map[string]any{"bits": 4, "group_size": 32}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.scales" has groups of 64, config.json's quantization says 32`},
		{"scales against false", func(b *build) { quant(b); b.config["quantization"].(map[string]any)[l0+"mlp.gate"] = false }, nil,
			`model.safetensors: tensor "language_model.model.layers.0.mlp.gate.scales" exists but config.json's quantization says false for its module`},
		{"entry without scales", func(b *build) {
			b.config["quantization"] = map[string]any{"bits": 4, "group_size": 64, l0 + "mlp.gate": map[string]any{"bits": 8, "group_size": 64}}
		}, nil, `model.safetensors: module "language_model.model.layers.0.mlp.gate" has an entry in config.json's quantization but no tensor "language_model.model.layers.0.mlp.gate.scales"`},
		{"packed columns", func(b *build) {
			quant(b)
			b.tensors[l0+"mlp.gate.weight"] = rawTensor{"U32", []int{4, 28}, make([]byte, 4*28*4)}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.weight" has 28 packed columns, which is not 2, 3, 4, 5, 6 or 8 bits for 128 inputs`},
		{"groups", func(b *build) {
			quant(b)
			for _, part := range []string{".scales", ".biases"} {
				b.tensors[l0+"mlp.gate"+part] = rawTensor{"BF16", []int{4, 8}, make([]byte, 64)}
			}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.scales" has 8 groups, which is not 32, 64 or 128 each for 128 inputs`},
		{"experts in scales", func(b *build) {
			quant(b)
			for _, part := range []string{".scales", ".biases"} {
				b.tensors[l0+"mlp.switch_mlp.up_proj"+part] = rawTensor{"BF16", []int{3, 128, 2}, make([]byte, 3*128*2*2)}
			}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.switch_mlp.up_proj.scales" has the shape [3 128 2], want [4 128] and groups`},
		{"biases unlike scales", func(b *build) {
			quant(b)
			b.tensors[l0+"mlp.gate.biases"] = rawTensor{"F32", []int{4, 2}, make([]byte, 32)}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.biases" is F32 [4 2], want BF16 [4 2] as its scales`},
		{"scales of bytes", func(b *build) {
			quant(b)
			b.tensors[l0+"mlp.gate.scales"] = rawTensor{"U8", []int{4, 2}, make([]byte, 8)}
		}, nil, `model.safetensors: tensor "language_model.model.layers.0.mlp.gate.scales" is U8, want BF16, F16 or F32`},

		// Files beside the weights.
		{"eos is no added token", nil, file("tokenizer_config.json", `{"eos_token":{"content":"<eos>"}}`),
			`tokenizer_config.json has the eos_token "<eos>", which is no added token of tokenizer.json`},
		{"added token beyond vocabulary", nil, file("tokenizer.json", `{"added_tokens":[{"id":64,"content":"<|im_end|>"}]}`),
			`tokenizer.json: added token "<|im_end|>" has the id 64, want 0 to 63`},
		{"top_p", nil, file("generation_config.json", `{"top_p":1.5}`), `generation_config.json: top_p is 1.5, want above 0 and at most 1`},
		{"token of another form", nil, file("tokenizer_config.json", `{"eos_token":7}`),
			`tokenizer_config.json: a token is neither a string, null nor an object with content`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			if c.spoil != nil {
				c.spoil(b)
			}
			m := b.fs()
			if c.damage != nil {
				c.damage(b, m)
			}
			refused(t, m, c.want)
		})
	}
}

// refused opens files and wants one sentence.
func refused(t *testing.T, m fstest.MapFS, want string) {
	t.Helper()
	c, err := OpenFS(m, "test", Options{})
	if err == nil {
		c.Close()
		t.Fatalf("opened, want: %s", want)
	}
	if err.Error() != want {
		t.Errorf("refused with\n%s\nwant\n%s", err, want)
	}
	if protocol.CodeOf(err) != protocol.CodeCheckpoint {
		t.Errorf("code %d, want CodeCheckpoint", protocol.CodeOf(err))
	}
}

func TestShardRefusals(t *testing.T) {
	const norm = mlxPrefix + "norm.weight"
	index := func(m fstest.MapFS, from, to string) {
		m[indexFile].Data = []byte(strings.Replace(string(m[indexFile].Data), from, to, 1))
	}
	for _, c := range []struct {
		name   string
		damage func(b *build, m fstest.MapFS)
		want   string
	}{
		{"missing shard", func(_ *build, m fstest.MapFS) { delete(m, shardName(1, 2)) },
			`model.safetensors.index.json names model-00002-of-00002.safetensors, which is missing; download it`},
		{"absolute path", func(_ *build, m fstest.MapFS) { index(m, shardName(0, 2), "/etc/x.safetensors") },
			`model.safetensors.index.json places tensor "language_model.lm_head.weight" in "/etc/x.safetensors", want the name of a .safetensors file beside it`},
		{"parent directory", func(_ *build, m fstest.MapFS) { index(m, shardName(0, 2), "../x.safetensors") },
			`model.safetensors.index.json places tensor "language_model.lm_head.weight" in "../x.safetensors", want the name of a .safetensors file beside it`},
		{"backslash", func(_ *build, m fstest.MapFS) { index(m, shardName(0, 2), `..\\x.safetensors`) },
			`model.safetensors.index.json places tensor "language_model.lm_head.weight" in "..\\x.safetensors", want the name of a .safetensors file beside it`},
		{"another file", func(_ *build, m fstest.MapFS) { index(m, shardName(0, 2), "config.json") },
			`model.safetensors.index.json places tensor "language_model.lm_head.weight" in "config.json", want the name of a .safetensors file beside it`},
		{"no weight map", func(_ *build, m fstest.MapFS) { m[indexFile].Data = []byte("{}") }, `model.safetensors.index.json has no weight_map`},
		{"tensor in both", func(b *build, m fstest.MapFS) {
			m[shardName(1, 2)].Data = safetensors(map[string]rawTensor{"language_model.lm_head.weight": b.tensors["language_model.lm_head.weight"]})
		}, `tensor "language_model.lm_head.weight" is in both model-00001-of-00002.safetensors and model-00002-of-00002.safetensors`},
		{"tensor elsewhere", func(_ *build, m fstest.MapFS) { index(m, shardName(0, 2), shardName(1, 2)) },
			`tensor "language_model.lm_head.weight" is in model-00001-of-00002.safetensors, but model.safetensors.index.json places it in model-00002-of-00002.safetensors`},
		{"tensor nowhere", func(_ *build, m fstest.MapFS) { index(m, norm, mlxPrefix+"no.weight") },
			`model-00002-of-00002.safetensors has no tensor "language_model.model.no.weight", which model.safetensors.index.json places there`},
		{"lfs pointer", func(_ *build, m fstest.MapFS) {
			m[shardName(1, 2)].Data = []byte("version https://git-lfs.github.com/spec/v1\n")
		}, `model-00002-of-00002.safetensors is a Git LFS pointer of 43 bytes instead of the file itself; run git lfs pull in the model's directory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			m := b.sharded(2)
			c.damage(b, m)
			refused(t, m, c.want)
		})
	}
}

func TestPathRefusals(t *testing.T) {
	dir := t.TempDir()
	plain, gguf := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "Model.GGUF")
	for _, p := range []string{plain, gguf} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weights := filepath.Join(dir, "dir")
	writeTo(t, weights, newBuild().fs())
	if err := os.Remove(filepath.Join(weights, singleFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(weights, singleFile), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "no"), filepath.Join(dir, "no") + " does not exist; give the directory that holds the model's config.json"},
		{"file", plain, plain + " is a file; give the directory that holds the model's config.json"},
		{"gguf", gguf, gguf + " is a GGUF file, which Lilypad does not read; give a directory with the model's safetensors files and config.json"},
		{"directory as weights", weights, "model.safetensors can't be opened: it is no regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(c.path, Options{})
			if err == nil || err.Error() != c.want || protocol.CodeOf(err) != protocol.CodeCheckpoint {
				t.Errorf("refused with\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

// writeTo puts files on the disk.
func writeTo(t *testing.T, dir string, m fstest.MapFS) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, f := range m {
		if err := os.WriteFile(filepath.Join(dir, name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
