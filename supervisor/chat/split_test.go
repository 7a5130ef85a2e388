package chat

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lilypad/protocol"
)

const openID, closeID, otherID = 900, 901, 7

var thinkTokens = []protocol.AddedToken{{ID: openID, Content: "<think>"}, {ID: closeID, Content: "</think>"}}

func other(text string) protocol.Token { return protocol.Token{ID: otherID, Text: text} }

// run pushes tokens and returns both texts.
func run(s *Split, tokens []protocol.Token, rest string) (reasoning, content string) {
	take := func(pieces []Piece) {
		for _, p := range pieces {
			if p.Reasoning {
				reasoning += p.Text
			} else {
				content += p.Text
			}
		}
	}
	for _, token := range tokens {
		take(s.Push(token))
	}
	take(s.Flush(rest))
	return reasoning, content
}

func TestSplit(t *testing.T) {
	open, end := protocol.Token{ID: openID, Text: "<think>"}, protocol.Token{ID: closeID, Text: "</think>"}
	for _, c := range []struct {
		name               string
		inside             bool
		tokens             []protocol.Token
		rest               string
		reasoning, content string
		count              int
	}{
		{name: "both", inside: true, tokens: []protocol.Token{other("I think"), other(".\n"), end, other("\n\n"), other("Yes\n")},
			reasoning: "I think.", content: "Yes\n", count: 3},
		{name: "opening marker repeated", inside: true, tokens: []protocol.Token{other("\n"), open, other("\n"), other("hm"), end, other("a")},
			reasoning: "hm", content: "a", count: 5},
		{name: "second opening marker is text", inside: true, tokens: []protocol.Token{open, open, other("x"), end},
			reasoning: "<think>x", count: 4},
		{name: "never closed", inside: true, tokens: []protocol.Token{other(" long"), other(" thought\n")}, reasoning: "long thought\n", count: 2},
		{name: "closed at once", inside: true, tokens: []protocol.Token{other("\n"), end, other("\n\nHi")}, content: "Hi", count: 2},
		{name: "no think block", tokens: []protocol.Token{other(" Hi"), other("\n")}, content: " Hi\n"},
		{name: "answer opens the block", tokens: []protocol.Token{open, other("\nhm\n"), end, other("\n\nHi")}, reasoning: "hm", content: "Hi", count: 3},
		{name: "marker in content", tokens: []protocol.Token{other("a"), open, other("b"), end}, content: "a<think>b</think>"},
		{name: "closing marker twice", inside: true, tokens: []protocol.Token{end, other("\n"), end, other("x")}, content: "</think>x", count: 1},
		{name: "letters are no marker", inside: true, tokens: []protocol.Token{other("</think>"), other(" x"), end, other("y")},
			reasoning: "</think> x", content: "y", count: 3},
		{name: "held back bytes before the marker", inside: true,
			tokens:    []protocol.Token{other("a "), {ID: closeID, Text: "\uFFFD</think>"}, other("b")},
			reasoning: "a \uFFFD", content: "b", count: 2},
		{name: "held back bytes at the end", inside: true, tokens: []protocol.Token{end, other("b")}, rest: "\uFFFD", content: "b\uFFFD", count: 1},
		{name: "space inside reasoning stays", inside: true, tokens: []protocol.Token{other("a \n"), other("\n"), other(" b "), end},
			reasoning: "a \n\n b", count: 4},
		{name: "nothing", inside: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewSplit(thinkTokens, c.inside)
			reasoning, content := run(s, c.tokens, c.rest)
			if reasoning != c.reasoning || content != c.content || s.ReasoningTokens() != c.count {
				t.Errorf("reasoning %q, content %q, %d tokens; want %q, %q, %d", reasoning, content, s.ReasoningTokens(), c.reasoning, c.content, c.count)
			}
		})
	}
}

// TestSplitCuts says that only the text and the markers count, not how the text is cut into tokens.
func TestSplitCuts(t *testing.T) {
	alphabet := rapid.StringOf(rapid.SampledFrom([]rune("ab <think>/\n\t\u00a0é😀")))
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.Bool().Draw(t, "inside")
		texts := rapid.SliceOfN(alphabet, 1, 4).Draw(t, "texts")
		var whole, cut []protocol.Token
		for i, text := range texts {
			if i > 0 {
				marker := rapid.SampledFrom(thinkTokens).Draw(t, "marker")
				token := protocol.Token{ID: marker.ID, Text: marker.Content}
				whole, cut = append(whole, token), append(cut, token)
			}
			whole = append(whole, other(text))
			for text != "" {
				n := rapid.IntRange(1, len([]rune(text))).Draw(t, "cut")
				piece := string([]rune(text)[:n])
				cut = append(cut, other(piece), other(""))
				text = strings.TrimPrefix(text, piece)
			}
		}
		r1, c1 := run(NewSplit(thinkTokens, inside), whole, "")
		r2, c2 := run(NewSplit(thinkTokens, inside), cut, "")
		if r1 != r2 || c1 != c2 {
			t.Fatalf("whole: %q %q, cut: %q %q", r1, c1, r2, c2)
		}
	})
}

func TestOpenThink(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans []protocol.Span
		want  bool
	}{
		{"open", []protocol.Span{{Text: "<|im_start|>assistant\n<think>\n"}}, true},
		{"closed", []protocol.Span{{Text: "<|im_start|>assistant\n<think>\n\n</think>\n\n"}}, false},
		{"the client's", []protocol.Span{{Text: "user\n"}, {Text: "<think>", Literal: true}}, false},
		{"nothing", nil, false},
	} {
		if got := OpenThink(c.spans); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHasPrefix(t *testing.T) {
	prompt := []protocol.Span{{Text: "abc"}, {Text: "<x>", Literal: true}, {Text: "def"}}
	for _, c := range []struct {
		name   string
		prefix []protocol.Span
		want   bool
	}{
		{"empty", nil, true},
		{"within a span", []protocol.Span{{Text: "ab"}}, true},
		{"several", []protocol.Span{{Text: "abc"}, {Text: "<x>", Literal: true}, {Text: "d"}}, true},
		{"other text", []protocol.Span{{Text: "abd"}}, false},
		{"not literal", []protocol.Span{{Text: "abc<x>"}}, false},
		{"longer", []protocol.Span{{Text: "abc"}, {Text: "<x>", Literal: true}, {Text: "defg"}}, false},
		{"short in the middle", []protocol.Span{{Text: "ab"}, {Text: "<x>", Literal: true}}, false},
	} {
		if got := HasPrefix(prompt, c.prefix); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
