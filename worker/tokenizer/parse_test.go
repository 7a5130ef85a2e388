package tokenizer

import (
	"strings"
	"testing"

	"lilypad/protocol"
)

func TestParseDemo(t *testing.T) {
	tok := demo(t)
	if got := tok.Size(); got != 3028 {
		t.Errorf("size %d, want 3028", got)
	}
	if len(tok.Added()) != 9 {
		t.Fatalf("%d added tokens, want 9", len(tok.Added()))
	}
	if got, want := tok.Added()[0], (protocol.AddedToken{ID: 3019, Content: "<|endoftext|>", Special: true}); got != want {
		t.Errorf("first added token %v, want %v", got, want)
	}
	if got := tok.Added()[3]; got.Content != "<think>" || got.Special {
		t.Errorf("fourth added token %v, want <think>, not special", got)
	}
	for id, want := range map[int32]bool{-1: false, 0: true, 3018: true, 3019: true, 3027: true, 3028: false} {
		if got := tok.Has(id); got != want {
			t.Errorf("Has(%d) is %v, want %v", id, got, want)
		}
	}
}

// TestParseVariants takes files that say the same in other ways.
func TestParseVariants(t *testing.T) {
	base := string(bpeJSON([]string{"a b", "ab c", "c d"}))
	want, err := Parse([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, new string }{
		{"merges as pairs", `"a b","ab c","c d"`, `["a","b"], ["ab","c"] ,["c","d"]`},
		{"escapes", `"ab": 256`, `"\u0061b": 256`},
		{"no normalizer", `"normalizer": {"type": "NFC"}, `, ``},
		{"null settings", `"type": "BPE"`, `"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": null, "ignore_merges": false`},
		{"post-processor", `"added_tokens"`, `"post_processor": {"type": "ByteLevel", "trim_offsets": false}, "added_tokens"`},
		{"unknown keys", `"added_tokens"`, `"truncation": {"a": [1, "]", {"b": null}]}, "added_tokens"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tok, err := Parse([]byte(replaceOnce(t, base, test.old, test.new)))
			if err != nil {
				t.Fatal(err)
			}
			const text = "abcd abdc cdab"
			got, want := tok.Encode(plain(text)), want.Encode(plain(text))
			if len(want) >= len(text) || tok.Decode(got) != text || len(got) != len(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	base := string(bpeJSON([]string{"a b", "ab c"}))
	added := func(entry string) (old, new string) { return `"added_tokens": []`, `"added_tokens": [` + entry + `]` }
	addedOld, lstrip := added(`{"id": 258, "content": "<x>", "lstrip": true}`)
	_, taken := added(`{"id": 257, "content": "<x>"}`)
	_, other := added(`{"id": 300, "content": "ab"}`)
	_, twice := added(`{"id": 258, "content": "<x>"}, {"id": 259, "content": "<x>"}`)
	_, sameID := added(`{"id": 258, "content": "<x>"}, {"id": 258, "content": "<y>"}`)
	_, empty := added(`{"id": 258, "content": ""}`)
	_, huge := added(`{"id": 1048576, "content": "<x>"}`)
	_, normalized := added(`{"id": 258, "content": "e\u0301", "normalized": true}`)
	for _, test := range []struct{ name, old, new, want string }{
		{"no UTF-8", `"added_tokens"`, "\"\xff\"", "not UTF-8"},
		{"cut off", `}}`, ``, "byte"},
		{"text after the end", `}}`, `}} x`, "after the object"},
		{"model type", `"BPE"`, `"Unigram"`, `model type "Unigram"`},
		{"dropout", `"type": "BPE"`, `"type": "BPE", "dropout": 0.1`, "dropout 0.1"},
		{"prefix", `"type": "BPE"`, `"type": "BPE", "continuing_subword_prefix": "##"`, "continuing_subword_prefix"},
		{"ignore_merges", `"type": "BPE"`, `"type": "BPE", "ignore_merges": true`, "ignore_merges"},
		{"normalizer", `"NFC"`, `"NFKC"`, `"NFKC"`},
		{"post-processor", `"added_tokens"`, `"post_processor": {"type": "TemplateProcessing"}, "added_tokens"`, "TemplateProcessing"},
		{"decoder", `"decoder": {"type": "ByteLevel"}`, `"decoder": null`, "decoder"},
		{"pre-tokenizer", `"Sequence"`, `"Whitespace"`, "sequence of Split and ByteLevel"},
		{"behavior", `"Isolated"`, `"Removed"`, "isolate"},
		{"byte-level regex", `"use_regex": false`, `"use_regex": true`, "use_regex"},
		{"byte-level default", `, "use_regex": false`, ``, "use_regex"},
		{"regular expression", `\\p{N}|`, `\\p{N}{1,3}|`, `\\p{N}{1,3}|`},
		{"byte without a token", `"!": 33,`, ``, "byte 0x21 has no token"},
		{"id twice", `"ab": 256`, `"ab": 3`, "two tokens"},
		{"token twice", `"ab": 256`, `"ab": 256, "ab": 256`, "there twice"},
		{"negative id", `"ab": 256`, `"ab": -1`, "id -1"},
		{"huge id", `"ab": 256`, `"ab": 2000000000`, "id 2000000000"},
		{"id is no integer", `"ab": 256`, `"ab": 1.5`, "1.5"},
		{"two vocabularies", `"merges"`, `"vocab": {}, "merges"`, "second vocabulary"},
		{"two lists of merges", `"merges"`, `"merges": [], "merges"`, "second list"},
		{"merge of unknown tokens", `"ab c"`, `"ab d"`, `"ab" and "d"`},
		{"merge of one", `"ab c"`, `"ab"`, `"ab" and ""`},
		{"merge of three", `"ab c"`, `["a","b","c"]`, "more than two"},
		{"added token with lstrip", addedOld, lstrip, "lstrip"},
		{"added token on a taken id", addedOld, taken, "which another token has"},
		{"added token with another id", addedOld, other, "id 256 in the vocabulary"},
		{"added token twice", addedOld, twice, "there twice"},
		{"added tokens on one id", addedOld, sameID, "which another token has"},
		{"empty added token", addedOld, empty, "want text"},
		{"added token with a huge id", addedOld, huge, "1048576"},
		{"added token that is not NFC", addedOld, normalized, "NFC"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(replaceOnce(t, base, test.old, test.new)))
			if err == nil {
				t.Fatal("parsed")
			}
			if protocol.CodeOf(err) != protocol.CodeCheckpoint {
				t.Errorf("code %d, want %d", protocol.CodeOf(err), protocol.CodeCheckpoint)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want one line with %q", err, test.want)
			}
		})
	}
}

// replaceOnce replaces the last old in text, and fails if there is none.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	i := strings.LastIndex(text, old)
	if i < 0 {
		t.Fatalf("%q is not in the file", old)
	}
	return text[:i] + new + text[i+len(old):]
}

func FuzzParse(f *testing.F) {
	f.Add(bpeJSON(nil))
	f.Add(bpeJSON([]string{"a b", "ab c"}))
	f.Add([]byte(`{"model": {"vocab": {"a": 1}, "merges": [["a", "b"], "a b"]}, "added_tokens": [{"id": 1}], "x": [{}, "\"]"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err != nil {
			if protocol.CodeOf(err) != protocol.CodeCheckpoint {
				t.Fatalf("%v is not a checkpoint error", err)
			}
			return
		}
		for _, text := range []string{"ab abc <think> é\r\n", strings.Repeat("ab", maxShort)} {
			if got := tok.Decode(tok.Encode([]protocol.Span{{Text: text, Literal: true}})); got != text {
				t.Fatalf("%q comes back as %q", text, got)
			}
			tok.Encode(plain(text))
		}
	})
}
