package tokenizer

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	demomodel "lilypad/scripts/demo-model"

	"lilypad/protocol"
)

// demoJSON returns the demo checkpoint's tokenizer.json.
func demoJSON(t testing.TB) []byte {
	t.Helper()
	data, err := fs.ReadFile(demomodel.FS(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// demo returns the demo checkpoint's tokenizer.
func demo(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Parse(demoJSON(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// demoQwen2 is the same vocabulary under qwen2's regular expression.
func demoQwen2(t testing.TB) *Tokenizer {
	t.Helper()
	text := strings.Replace(string(demoJSON(t)), quoteJSON(regexQwen35), quoteJSON(regexQwen2), 1)
	tok, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if tok.classes != qwen2Classes() {
		t.Fatal("the regular expression was not replaced")
	}
	return tok
}

func quoteJSON(s string) string {
	var quoted strings.Builder
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false) // as Hugging Face writes it
	if err := enc.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSpace(quoted.String())
}

// plain is text as one span that is not literal.
func plain(text string) []protocol.Span { return []protocol.Span{{Text: text}} }

// pieces cuts text up.
func (t *classTable) pieces(text string) (all []string) {
	for text != "" {
		n := t.piece(text)
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

// golden is what Hugging Face's library makes of a text.
type golden struct {
	Text    string  `json:"text"`
	IDs     []int32 `json:"ids"`
	Decoded string  `json:"decoded"`
	// Pieces are what the pre-tokenizer cuts Text into, without NFC and added tokens. demo.json has none.
	Pieces []string `json:"pieces"`
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestGoldens compares with Hugging Face's library: demo.json is the project's golden file, qwen35.json and qwen2.json
// are made by make_cases.py.
func TestGoldens(t *testing.T) {
	for _, test := range []struct {
		file string
		tok  *Tokenizer
	}{
		{"demo.json", demo(t)},
		{"qwen35.json", demo(t)},
		{"qwen2.json", demoQwen2(t)},
	} {
		t.Run(test.file, func(t *testing.T) {
			var cases []golden
			readJSON(t, test.file, &cases)
			for _, c := range cases {
				if got := test.tok.Encode(plain(c.Text)); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%+q)\n got %v\nwant %v", c.Text, got, c.IDs)
				}
				if got := test.tok.classes.pieces(c.Text); c.Pieces != nil && !slices.Equal(got, c.Pieces) {
					t.Errorf("pieces of %+q\n got %+q\nwant %+q", c.Text, got, c.Pieces)
				}
				if got := test.tok.Decode(c.IDs); got != c.Decoded {
					t.Errorf("Decode(%v)\n got %+q\nwant %+q", c.IDs, got, c.Decoded)
				}
			}
		})
	}
}

// TestDecodeGoldens compares the text of random ids, most of them no UTF-8.
func TestDecodeGoldens(t *testing.T) {
	tok := demo(t)
	var cases []golden
	readJSON(t, "decode.json", &cases)
	for _, c := range cases {
		if got := tok.Decode(c.IDs); got != c.Decoded {
			t.Errorf("Decode(%v)\n got %+q\nwant %+q", c.IDs, got, c.Decoded)
		}
	}
}
