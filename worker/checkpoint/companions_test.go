package checkpoint

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"lilypad/protocol"
)

func TestCompanions(t *testing.T) {
	for _, c := range []struct {
		name               string
		files              map[string]string // empty text removes the file
		eos                any               // config's
		bos, end, template string
		stops              []int32
		generation         Generation
	}{
		{"all of them", map[string]string{"chat_template.jinja": "T", "tokenizer_config.json": `{"eos_token":"<|im_end|>","bos_token":{"content":"B"},"chat_template":"old"}`},
			60, "B", "<|im_end|>", "T", []int32{60, 61}, Generation{true, 0.5, 0.9, 7, 0}},
		{"template in tokenizer_config", map[string]string{"tokenizer_config.json": `{"chat_template":"old","eos_token":null}`},
			nil, "", "", "old", []int32{60, 61}, Generation{true, 0.5, 0.9, 7, 0}},
		{"named templates", map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"tool_use","template":"no"},{"name":"default","template":"yes"}]}`},
			nil, "", "", "yes", []int32{60, 61}, Generation{true, 0.5, 0.9, 7, 0}},
		{"nothing but config", map[string]string{"tokenizer_config.json": "", "generation_config.json": ""},
			[]int{5, 3, 5}, "", "", "", []int32{3, 5}, Generation{false, 1, 1, 50, 0}},
		{"nulls", map[string]string{"generation_config.json": `{"temperature":null,"min_p":0.1,"eos_token_id":null}`},
			nil, "", "<|im_end|>", "", []int32{61}, Generation{false, 1, 1, 50, 0.1}},
		{"stop ids join", map[string]string{"generation_config.json": `{"eos_token_id":7}`},
			[]int{9}, "", "<|im_end|>", "", []int32{7, 9, 61}, Generation{false, 1, 1, 50, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			b.config["eos_token_id"] = c.eos
			m := b.fs()
			for name, text := range c.files {
				m[name] = &fstest.MapFile{Data: []byte(text)}
				if text == "" {
					delete(m, name)
				}
			}
			got := mustOpen(t, m, Options{})
			if got.BOS != c.bos || got.EOS != c.end || got.ChatTemplate != c.template {
				t.Errorf("bos %q, eos %q, template %q", got.BOS, got.EOS, got.ChatTemplate)
			}
			if !slices.Equal(got.StopIDs, c.stops) {
				t.Errorf("stop ids %v, want %v", got.StopIDs, c.stops)
			}
			if got.Generation != c.generation {
				t.Errorf("generation %+v, want %+v", got.Generation, c.generation)
			}
		})
	}
}

// The text model's eos counts where the top level has none.
func TestStopIDOfTextConfig(t *testing.T) {
	b := newBuild()
	b.config["eos_token_id"], b.text["eos_token_id"] = nil, 12
	if got := mustOpen(t, b.fs(), Options{}).StopIDs; !slices.Equal(got, []int32{12, 60, 61}) {
		t.Errorf("stop ids %v", got)
	}
}

// FuzzCompanions: any bytes as one of the small JSON files give an error of ours or values in range.
func FuzzCompanions(f *testing.F) {
	f.Add([]byte(`{"eos_token_id":[1,2],"temperature":0.6,"top_k":20,"top_p":0.95}`))
	f.Add([]byte(`{"eos_token":{"content":"<e>"},"bos_token":null,"chat_template":[{"name":"default","template":"t"}]}`))
	f.Add([]byte(`{"version":"1.0","added_tokens":[{"id":3,"content":"<e>"}],"model":{}}`))
	f.Add([]byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		sentence := func(err error) {
			if err != nil && (protocol.CodeOf(err) != protocol.CodeCheckpoint || strings.Contains(err.Error(), "\n")) {
				t.Fatalf("error is no sentence of ours: %v", err)
			}
		}
		g, stops, err := parseGeneration(data, 10)
		sentence(err)
		if err == nil && (g.Temperature < 0 || g.TopP <= 0 || g.TopP > 1 || g.TopK < 0 || g.MinP < 0 || g.MinP > 1) {
			t.Fatalf("generation %+v", g)
		}
		for _, id := range stops {
			if err == nil && (id < 0 || id >= 10) {
				t.Fatalf("stop id %d", id)
			}
		}
		_, err = parseTokenizerConfig(data)
		sentence(err)
		id, err := addedTokenID(data, "<e>", 10)
		sentence(err)
		if id < 0 || id >= 10 {
			t.Fatalf("token id %d", id)
		}
		weightMap, err := parseIndex(data)
		sentence(err)
		for _, file := range weightMap {
			if strings.ContainsAny(file, `/\`) {
				t.Fatalf("shard %q", file)
			}
		}
	})
}
