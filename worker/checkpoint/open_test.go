package checkpoint

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
	demomodel "lilypad/scripts/demo-model"
	"lilypad/worker/model"
)

// layers makes an interval-4 layer list.
func layers(n int, moe bool) []model.Layer {
	all := make([]model.Layer, n)
	for i := range all {
		all[i] = model.Layer{Mixer: model.DeltaNet, MoE: moe}
		if (i+1)%4 == 0 {
			all[i].Mixer = model.Attention
		}
	}
	return all
}

func TestDemo(t *testing.T) {
	var done, total int64
	c, err := OpenFS(demomodel.FS(), demomodel.Name, Options{Progress: func(d, n int64) { done, total = d, n }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := model.Shape{
		Type: "qwen3_5_moe", Layers: layers(8, true), Hidden: 256, Vocab: 3072, NormEps: 1e-6, Context: 8192,
		Heads: 4, KVHeads: 2, HeadDim: 64, Rotary: 16, RopeTheta: 1e7,
		KeyHeads: 2, ValueHeads: 4, KeyDim: 64, ValueDim: 64, Conv: 4,
		Experts: 16, ExpertsPerToken: 4, ExpertFFN: 64, SharedFFN: 64, NormTopK: true,
	}
	if d := cmp.Diff(want, c.Shape); d != "" {
		t.Error(d)
	}
	if c.Name != demomodel.Name || c.BOS != "" || c.EOS != "<|im_end|>" || !slices.Equal(c.StopIDs, []int32{3019, 3021}) {
		t.Errorf("name %q, bos %q, eos %q, stop ids %v", c.Name, c.BOS, c.EOS, c.StopIDs)
	}
	if c.Generation != (Generation{DoSample: true, Temperature: 0.3, TopP: 0.95, TopK: 20}) {
		t.Errorf("generation %+v", c.Generation)
	}
	if !strings.Contains(c.ChatTemplate, "<|im_start|>") || len(c.Tokenizer) == 0 || len(c.ID) != 64 {
		t.Errorf("template of %d bytes, tokenizer of %d, id %q", len(c.ChatTemplate), len(c.Tokenizer), c.ID)
	}
	if done != total || total == 0 || c.Shape.Parameters() != 10_419_120 {
		t.Errorf("progress %d of %d, %d parameters", done, total, c.Shape.Parameters())
	}
	moe := c.Weights.Layers[7].MoE
	if moe.Router.Bits != 8 || moe.Experts[15].Up.Bits != 4 || moe.Experts[15].Up.Group != 64 {
		t.Errorf("router has %d bits, an expert %d in groups of %d", moe.Router.Bits, moe.Experts[15].Up.Bits, moe.Experts[15].Up.Group)
	}
}

// The tiny relatives as transformers wrote them, by way of the mapping.
func TestTinyRelatives(t *testing.T) {
	moe := model.Shape{
		Type: "qwen3_5_moe", Layers: layers(4, true), Hidden: 128, Vocab: 512, NormEps: 1e-6, Context: 1024,
		Heads: 4, KVHeads: 1, HeadDim: 64, Rotary: 16, RopeTheta: 1e7, KeyHeads: 2, ValueHeads: 6, KeyDim: 64, ValueDim: 64, Conv: 4,
		Experts: 8, ExpertsPerToken: 3, ExpertFFN: 64, SharedFFN: 64, NormTopK: true,
	}
	dense := model.Shape{
		Type: "qwen3_5", Layers: layers(4, false), Hidden: 128, Vocab: 512, NormEps: 1e-6, Context: 1024, Tied: true,
		Heads: 4, KVHeads: 2, HeadDim: 64, Rotary: 16, RopeTheta: 1e7, KeyHeads: 2, ValueHeads: 2, KeyDim: 64, ValueDim: 64, Conv: 4,
		FFN: 192,
	}
	for name, want := range map[string]model.Shape{"tiny-moe-r3": moe, "tiny-dense-tied-r1": dense} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "has no tokenizer.json") {
				t.Errorf("opened without a tokenizer: %v", err)
			}
			c, err := Open(dir, Options{WeightsOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, c.Shape); d != "" {
				t.Error(d)
			}
			if c.Name != name || c.Weights.Embed.Type != BF16 {
				t.Errorf("name %q, embedding %v", c.Name, c.Weights.Embed.Type)
			}
			for range 2 {
				if err := c.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		})
	}
}

// A directory on the disk, mapped, gives the same checkpoint as the same files read.
func TestMappedEqualsRead(t *testing.T) {
	b := newBuild()
	b.quantize(func(string) (int, int) { return 5, 32 })
	m := b.sharded(3)
	dir := filepath.Join(t.TempDir(), "some-model")
	writeTo(t, dir, m)
	c, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := mustOpen(t, m, Options{})
	sameWeights(t, dump(c), dump(read))
	if c.ID != read.ID || c.Bytes != read.Bytes || c.Name != "some-model" {
		t.Errorf("id %s and %s, bytes %d and %d, name %q", c.ID, read.ID, c.Bytes, read.Bytes, c.Name)
	}
}

func TestBytes(t *testing.T) {
	c := mustOpen(t, newBuild().fs(), Options{})
	// Matrices in bf16 (2 bytes), vectors in fp32.
	const (
		tables = 2 * 64 * 128
		delta  = (192+128+4+4)*128 + 128*128
		attn   = (256+64+64)*128 + 128*128
		moe    = 5*128 + 5*3*128*128
		vector = 128 + 2*2*128 + 192*4 + 4 + 4 + 32 + 64 + 64
	)
	if want := int64(2*(tables+delta+attn+2*moe) + 4*vector); c.Bytes != want {
		t.Errorf("%d bytes, want %d", c.Bytes, want)
	}
	if want := int64(tables + delta + attn + 2*moe + vector); c.Shape.Parameters() != want {
		t.Errorf("%d parameters, want %d", c.Shape.Parameters(), want)
	}
}

// The id changes with the files that decide what is computed, and with nothing else.
func TestIdentity(t *testing.T) {
	base := newBuild().fs()
	id := mustOpen(t, base, Options{}).ID
	for _, c := range []struct {
		name   string
		change func(files map[string]string)
		same   bool
	}{
		{"nothing", func(map[string]string) {}, true},
		{"generation_config", func(f map[string]string) { f["generation_config.json"] = `{"top_k":3}` }, true},
		{"a template", func(f map[string]string) { f["chat_template.jinja"] = "x" }, true},
		{"config", func(f map[string]string) { f["config.json"] += " " }, false},
		{"tokenizer", func(f map[string]string) { f["tokenizer.json"] += " " }, false},
		{"last weight", func(f map[string]string) {
			w := []byte(f[singleFile])
			w[len(w)-1] ^= 1
			f[singleFile] = string(w)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := make(map[string]string)
			for name, f := range base {
				files[name] = string(f.Data)
			}
			c.change(files)
			m := clone(base)
			for name, text := range files {
				if m[name] == nil {
					m[name] = clone(base)["config.json"]
				}
				m[name].Data = []byte(text)
			}
			if got := mustOpen(t, m, Options{}).ID; (got == id) != c.same {
				t.Errorf("id %s after %s", got, id)
			}
		})
	}
	if sharded := mustOpen(t, newBuild().sharded(2), Options{}).ID; sharded == id {
		t.Error("other shards, same id")
	}
}

// A large shard is sampled: its ends, its size and its header count, and most blocks don't.
func TestIdentitySamples(t *testing.T) {
	const size = 80 * blockBytes
	file := func() *shard {
		data := withHeader(`{"a":{}}`, make([]byte, size))
		return &shard{file: "f", data: data}
	}
	id := func(change func(s *shard)) string {
		s := file()
		change(s)
		return identity(nil, nil, []*shard{s}, 0)
	}
	seen := map[string]string{}
	for _, name := range []string{"nothing", "first", "last", "header", "longer"} {
		got := id(func(s *shard) {
			switch name {
			case "first":
				s.data[16]++
			case "last":
				s.data[len(s.data)-1]++
			case "header":
				s.data[10]++
			case "longer":
				s.data = append(s.data, 0)
			}
		})
		if before, twice := seen[got]; twice {
			t.Errorf("%s and %s have one id", before, name)
		}
		seen[got] = name
	}
	counted, unchanged := 0, id(func(*shard) {})
	for block := range 80 {
		if id(func(s *shard) { s.data[16+block*blockBytes+blockBytes/2]++ }) != unchanged {
			counted++
		}
	}
	if counted < 60 || counted > 70 {
		t.Errorf("%d of 80 blocks count, want about 64", counted)
	}
}

func TestOptionRefused(t *testing.T) {
	_, err := OpenFS(newBuild().fs(), "test", Options{Quantize: 5})
	if err == nil || err.Error() != "quantize is 5, want 4, 8 or 0 for weights as stored" || protocol.CodeOf(err) != protocol.CodeInvalid {
		t.Errorf("quantize 5: %v (code %d)", err, protocol.CodeOf(err))
	}
}
