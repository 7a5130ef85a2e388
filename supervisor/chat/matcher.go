package chat

import (
	"slices"
	"strings"

	"lilypad/protocol"
)

// tokenMatcher finds added tokens in a text.
type tokenMatcher struct {
	byFirst  [256][]string // by first byte, longest first
	edges    string        // first and last characters of all tokens
	prefixes map[string]bool
	suffixes map[string]bool // of tokens, without the whole ones
	longest  int             // bytes
}

func newTokenMatcher(added []protocol.AddedToken) tokenMatcher {
	m := tokenMatcher{prefixes: map[string]bool{}, suffixes: map[string]bool{}}
	for _, token := range added {
		runes := []rune(token.Content)
		if len(runes) == 0 {
			continue
		}
		m.longest = max(m.longest, len(token.Content))
		for i := 1; i < len(token.Content); i++ {
			m.prefixes[token.Content[:i]], m.suffixes[token.Content[i:]] = true, true
		}
		m.byFirst[token.Content[0]] = append(m.byFirst[token.Content[0]], token.Content)
		for _, edge := range []rune{runes[0], runes[len(runes)-1]} {
			if !strings.ContainsRune(m.edges, edge) {
				m.edges += string(edge)
			}
		}
	}
	for _, tokens := range m.byFirst {
		slices.SortFunc(tokens, func(a, b string) int { return len(b) - len(a) })
	}
	return m
}

// occurrence is where a token stands: bytes [start, end) of a text.
type occurrence struct{ start, end int }

// find returns every place where a token begins, with the longest token there.
func (m *tokenMatcher) find(text string) []occurrence {
	var found []occurrence
	for i := range len(text) {
		for _, token := range m.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], token) {
				found = append(found, occurrence{i, i + len(token)})
				break
			}
		}
	}
	return found
}

// canForm tells whether text that a client sent can become a token, whole or together with what a template puts before or
// after it. That a template cuts it anywhere but at white space at its ends, or at a token, is not considered.
func (m *tokenMatcher) canForm(text string) bool {
	trimmed := strip(text, nil, true, true)
	for n := 1; n < min(m.longest, len(trimmed)+1); n++ {
		if m.prefixes[trimmed[len(trimmed)-n:]] || m.suffixes[trimmed[:n]] {
			return true
		}
	}
	return m.contains(text)
}

func (m *tokenMatcher) contains(text string) bool {
	for i := range len(text) {
		for _, token := range m.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], token) {
				return true
			}
		}
	}
	return false
}

// literal cuts text into spans: tokens of which an end was marked are literal, all other text is not.
func (m *tokenMatcher) literal(text string, marks []int) []protocol.Span {
	var spans []protocol.Span
	begin, kind := 0, false // of the span that is being gathered: text[begin:], not copied piece by piece
	cut := func(at int, literal bool) {
		if literal == kind {
			return
		}
		if at > begin {
			spans = append(spans, protocol.Span{Text: text[begin:at], Literal: kind})
		}
		begin, kind = at, literal
	}
	end := 0 // of the last token
	for _, o := range m.find(text) {
		if o.end <= end || !markedAt(text, o, marks) {
			continue
		}
		start := max(o.start, end)
		if start > end {
			cut(end, false)
		}
		cut(start, true)
		end = o.end
	}
	if end < len(text) {
		cut(end, false)
	}
	if begin < len(text) {
		spans = append(spans, protocol.Span{Text: text[begin:], Literal: kind})
	}
	return spans
}

func markedAt(text string, o occurrence, marks []int) bool {
	last := o.end - 1
	for last > o.start && text[last]&0xC0 == 0x80 {
		last--
	}
	_, first := slices.BinarySearch(marks, o.start)
	_, lastToo := slices.BinarySearch(marks, last)
	return first || lastToo
}
