package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const megabyte = 1 << 20

// prose returns text of n bytes: words of one to three of the demo's own word tokens, few of them frequent, in sentences.
func prose(t testing.TB, n int) string {
	t.Helper()
	tok, rng := demo(t), rand.New(rand.NewPCG(1, 2))
	var parts []string
	for _, token := range tok.tokens {
		if len(token) > 1 && strings.Trim(token, "abcdefghijklmnopqrstuvwxyz") == "" {
			parts = append(parts, token)
		}
	}
	zipf := rand.NewZipf(rng, 1.2, 4, uint64(len(parts)-1))
	var words []string
	for range 20_000 {
		word := ""
		for range 1 + rng.IntN(3) {
			word += parts[zipf.Uint64()]
		}
		words = append(words, word)
	}
	often := rand.NewZipf(rng, 1.1, 3, uint64(len(words)-1))
	var text strings.Builder
	for text.Len() < n {
		for range 4 + rng.IntN(12) {
			text.WriteString(words[often.Uint64()])
			text.WriteByte(' ')
		}
		text.WriteString("and 1,204 don't. ")
	}
	return text.String()[:n]
}

// letters returns n random letters without a break.
func letters(n int) string {
	rng := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, n)
	for i := range text {
		text[i] = "etaoinshrdlucmfwypvbgkqjxz"[rng.IntN(26)]
	}
	return string(text)
}

func BenchmarkEncode(b *testing.B) {
	text := prose(b, megabyte)
	for _, bench := range []struct{ name, text string }{
		{"prose", text},
		{"one_letter", strings.Repeat("e", megabyte)},
		{"letters", letters(megabyte)},
		{"spaces", strings.Repeat(" ", megabyte)},
		{"lines", strings.Repeat("\n", megabyte)},
		{"spaces_letter", strings.Repeat(" a", megabyte/2)},
		{"marks", "a" + strings.Repeat("\u0301", megabyte/2)},
		{"unordered_marks", strings.Repeat("\u0301\u0323", megabyte/4)},
		{"jamo", strings.Repeat("\u1161", megabyte/3)},
		{"chinese", strings.Repeat("東京は日本の首都です。", megabyte/33)},
		{"tags", strings.Repeat("<|im_start|", megabyte/11)},
		{"open_tags", strings.Repeat("<", megabyte)},
		{"contractions", strings.Repeat("'", megabyte)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			tok := demo(b)
			b.SetBytes(int64(len(bench.text)))
			b.ReportAllocs()
			tokens := 0
			for b.Loop() {
				tokens = len(tok.Encode(plain(bench.text)))
			}
			b.ReportMetric(float64(tokens), "tokens")
		})
	}
}

// BenchmarkEncodePrompt encodes prose of 22 thousand tokens.
func BenchmarkEncodePrompt(b *testing.B) {
	tok := demo(b)
	text := tok.Decode(tok.Encode(plain(prose(b, megabyte)))[:22_000])
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(plain(text))
	}
}

// BenchmarkStream pushes prose token by token.
func BenchmarkStream(b *testing.B) {
	tok := demo(b)
	ids := tok.Encode(plain(prose(b, megabyte/16)))
	b.ReportAllocs()
	for b.Loop() {
		s := NewStream(tok)
		for _, id := range ids {
			s.Push(id)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
}

// BenchmarkParse reads a file of the real size: 248,044 tokens and 247,788 merges.
func BenchmarkParse(b *testing.B) {
	file := synthesize(248_044)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(file); err != nil {
			b.Fatal(err)
		}
	}
}

// synthesize returns a tokenizer.json with size tokens, each but the bytes made by one merge, in the layout of the real
// file (indented by two, merges as pairs).
func synthesize(size int) []byte {
	rng := rand.New(rand.NewPCG(5, 6))
	tokens := make([]string, 0, size)
	known := map[string]bool{}
	for _, c := range spelling {
		tokens = append(tokens, string(c))
		known[string(c)] = true
	}
	var merges strings.Builder
	for len(tokens) < size {
		a, b := tokens[rng.IntN(len(tokens))], tokens[rng.IntN(len(tokens))]
		if known[a+b] || len(a+b) > 24 {
			continue
		}
		if merges.Len() > 0 {
			merges.WriteByte(',')
		}
		fmt.Fprintf(&merges, "\n      [\n        %s,\n        %s\n      ]", quoteJSON(a), quoteJSON(b))
		tokens, known[a+b] = append(tokens, a+b), true
	}
	var vocab strings.Builder
	for id, token := range tokens {
		if id > 0 {
			vocab.WriteByte(',')
		}
		fmt.Fprintf(&vocab, "\n      %s: %d", quoteJSON(token), id)
	}
	return fmt.Appendf(nil, `{
  "version": "1.0",
  "added_tokens": [{"id": %d, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": %s}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"},
  "model": {
    "type": "BPE",
    "vocab": {%s
    },
    "merges": [%s
    ]
  }
}`, len(tokens), quoteJSON(regexQwen35), vocab.String(), merges.String())
}
