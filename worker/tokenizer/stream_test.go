package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestStreamText pins where text comes out.
func TestStreamText(t *testing.T) {
	tok := demo(t)
	for _, test := range []struct {
		name  string
		bytes string   // pushed one by one
		want  []string // after each byte, and by Flush
	}{
		{"ascii", "ab", []string{"a", "b", ""}},
		{"two bytes", "é", []string{"", "é", ""}},
		{"four bytes", "😀", []string{"", "", "", "😀", ""}},
		{"a genuine U+FFFD is not held back", "\uFFFD", []string{"", "", "\uFFFD", ""}},
		{"unfinished at the end", "\xf0\x9f\x98", []string{"", "", "", "\uFFFD"}},
		{"broken off by a letter", "\xe2\x82a", []string{"", "", "\uFFFDa", ""}},
		{"broken off by a start", "\xe2\x82\xc3\xa9", []string{"", "", "\uFFFD", "é", ""}},
		{"surrogate", "\xed\xa0\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},
		{"overlong", "\xc0\xaf", []string{"\uFFFD", "\uFFFD", ""}},
		{"above U+10FFFF", "\xf4\x90\x80\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", "\uFFFD", ""}},
		{"lone continuation", "\x80", []string{"\uFFFD", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewStream(tok)
			for i := range len(test.bytes) {
				if got := s.Push(tok.bytes[test.bytes[i]]); got != test.want[i] {
					t.Errorf("byte %d gives %+q, want %+q", i, got, test.want[i])
				}
			}
			if got, want := s.Flush(), test.want[len(test.bytes)]; got != want {
				t.Errorf("Flush gives %+q, want %+q", got, want)
			}
		})
	}
}

// ids draws ids of the demo: single bytes, tokens, added tokens and ids without a token.
func ids(tok *Tokenizer) *rapid.Generator[[]int32] {
	start := rapid.Int32Range(128, 255) // bytes that are no ASCII by themselves
	return rapid.SliceOfN(rapid.OneOf(start, start, rapid.Int32Range(-2, int32(tok.Size())+2)), 0, 30)
}

// TestStream checks that any cut of a sequence, with another stream primed at the cut, gives Decode's text.
func TestStream(t *testing.T) {
	tok := demo(t)
	rapid.Check(t, func(t *rapid.T) {
		ids := ids(tok).Draw(t, "ids")
		want := tok.Decode(ids)
		for cut := range len(ids) + 1 {
			var text strings.Builder
			s := NewStream(tok)
			for _, id := range ids[:cut] {
				text.WriteString(s.Push(id))
			}
			if len(s.held) > 3 {
				t.Fatalf("%d bytes are held back, want 3 at most", len(s.held))
			}
			s = NewStream(tok)
			s.Prime(ids[:cut])
			for _, id := range ids[cut:] {
				text.WriteString(s.Push(id))
			}
			text.WriteString(s.Flush())
			if got := text.String(); got != want || !utf8.ValidString(got) {
				t.Fatalf("cut at %d: got %+q, want %+q", cut, got, want)
			}
		}
	})
}
