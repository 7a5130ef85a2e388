package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"lilypad/protocol"
)

func TestAddedTokens(t *testing.T) {
	tok := demo(t)
	id := func(content string) int32 {
		for _, a := range tok.Added() {
			if a.Content == content {
				return a.ID
			}
		}
		t.Fatalf("no added token %q", content)
		return -1
	}
	open, literal := func(s string) protocol.Span { return protocol.Span{Text: s} }, func(s string) protocol.Span {
		return protocol.Span{Text: s, Literal: true}
	}
	for _, test := range []struct {
		name  string
		spans []protocol.Span
		want  []int32 // the added tokens among the ids
	}{
		{"open", []protocol.Span{open("<think>")}, []int32{id("<think>")}},
		{"literal", []protocol.Span{literal("<think>")}, nil},
		{"across open spans", []protocol.Span{open("<thi"), open("nk>")}, []int32{id("<think>")}},
		{"across an empty literal span", []protocol.Span{open("<thi"), literal(""), open("nk>")}, []int32{id("<think>")}},
		{"first byte literal", []protocol.Span{literal("<"), open("think>")}, nil},
		{"last byte literal", []protocol.Span{open("<think"), literal(">")}, nil},
		{"middle literal", []protocol.Span{open("<th"), literal("i"), open("nk>")}, nil},
		{"literal between", []protocol.Span{open("<think>"), literal("<think>"), open("</think>")}, []int32{id("<think>"), id("</think>")}},
		{"open after half", []protocol.Span{literal("<think"), open("><think>")}, []int32{id("<think>")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ids := tok.Encode(test.spans)
			var added []int32
			for _, i := range ids {
				if slices.ContainsFunc(tok.Added(), func(a protocol.AddedToken) bool { return a.ID == i }) {
					added = append(added, i)
				}
			}
			if !slices.Equal(added, test.want) {
				t.Errorf("added tokens %v, want %v", added, test.want)
			}
			var all strings.Builder
			for _, s := range test.spans {
				all.WriteString(s.Text)
			}
			if got := tok.Decode(ids); got != all.String() {
				t.Errorf("decoded %q, want %q", got, all.String())
			}
		})
	}
}

// TestMatcher compares with the plainest search.
func TestMatcher(t *testing.T) {
	ab := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfNDistinct(ab, 0, 6, rapid.ID).Draw(t, "tokens")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 30, -1).Draw(t, "text")
		var added []protocol.AddedToken
		for id, token := range tokens {
			added = append(added, protocol.AddedToken{ID: int32(id), Content: token})
		}
		start, end, id := len(text), len(text), int32(-1)
		for i, token := range tokens {
			at := strings.Index(text, token)
			if at >= 0 && (at < start || at == start && len(token) > end-start) {
				start, end, id = at, at+len(token), int32(i)
			}
		}
		gotStart, gotEnd, gotID := newMatcher(added).find(text)
		if gotStart != start || gotEnd != end || gotID != id {
			t.Fatalf("%q in %q: got %d:%d %d, want %d:%d %d", tokens, text, gotStart, gotEnd, gotID, start, end, id)
		}
	})
}

// TestSpansChangeNothing cuts one text into spans anywhere, even inside a character, and puts literal ones in.
func TestSpansChangeNothing(t *testing.T) {
	tok := demo(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(text(), composing()).Draw(t, "text")
		mayBeLiteral := rapid.Bool().Draw(t, "literal") && !containsAdded(tok, text)
		var spans []protocol.Span
		for rest := text; rest != ""; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "cut")
			spans = append(spans, protocol.Span{Text: rest[:n], Literal: mayBeLiteral && rapid.Bool().Draw(t, "this")})
			rest = rest[n:]
		}
		if got, want := tok.Encode(spans), tok.Encode(plain(text)); !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v", spans, got, want)
		}
	})
}

func containsAdded(tok *Tokenizer, text string) bool {
	_, _, id := tok.matcher.find(text)
	return id >= 0
}

func TestEncodeConcurrently(t *testing.T) {
	tok := demo(t)
	text := prose(t, 20_000)
	want := demo(t).Encode(plain(text))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := tok.Encode(plain(text)); !slices.Equal(got, want) {
				t.Error("another goroutine changed the ids")
			}
		})
	}
	wg.Wait()
}

// FuzzEncode checks that ids spell the text's normal form and that the pieces cover it.
func FuzzEncode(f *testing.F) {
	for _, s := range append(tricky, "Hello, world! <think>\n\n", strings.Repeat("\u0301\u0323", 40), "a\xff\xe2\x82b") {
		f.Add(s)
	}
	toks := []*Tokenizer{demo(f), demoQwen2(f)}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			ids := tok.Encode([]protocol.Span{{Text: text, Literal: true}})
			var raw []byte
			for _, id := range ids {
				if !tok.Has(id) {
					t.Fatalf("id %d has no token", id)
				}
				raw = tok.AppendToken(raw, id)
			}
			if want := nfc(text); string(raw) != want {
				t.Fatalf("ids of %+q spell %+q, want %+q", text, raw, want)
			}
			if longestMarks(text) <= maxMarks && string(raw) != norm.NFC.String(text) {
				t.Fatalf("%+q is not the NFC of %+q", raw, text)
			}
			tok.Encode(plain(text))
		}
	})
}

// longestMarks counts the longest run of characters that combine with what is before them.
func longestMarks(text string) (longest int) {
	run := 0
	for _, r := range text {
		if norm.NFC.PropertiesString(string(r)).BoundaryBefore() {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
