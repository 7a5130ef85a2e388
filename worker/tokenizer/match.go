package tokenizer

import (
	"cmp"
	"slices"
	"sort"

	"lilypad/protocol"
)

// matcher finds added tokens in text.
type matcher struct {
	tokens []protocol.AddedToken // ascending by content, so that tokens with one prefix are neighbours, the shortest first
	first  [256]bool             // bytes that some token starts with
}

func newMatcher(added []protocol.AddedToken) *matcher {
	m := &matcher{tokens: slices.Clone(added)}
	slices.SortFunc(m.tokens, func(a, b protocol.AddedToken) int { return cmp.Compare(a.Content, b.Content) })
	for _, a := range m.tokens {
		m.first[a.Content[0]] = true
	}
	return m
}

// find returns the leftmost match in text, and of those that start there the longest; id is -1 if there is none.
func (m *matcher) find(text string) (start, end int, id int32) {
	for start := range len(text) {
		if !m.first[text[start]] {
			continue
		}
		if n, id := m.longest(text[start:]); id >= 0 {
			return start, start + n, id
		}
	}
	return len(text), len(text), -1
}

// longest returns the length and the id of the longest token that text starts with.
func (m *matcher) longest(text string) (n int, id int32) {
	id = -1
	left := m.tokens // those that agree with text[:i]
	for i := range len(text) {
		// after returns the index of the first token whose byte at i is above b; a token that ends before i has none.
		after := func(b int) int {
			return sort.Search(len(left), func(k int) bool { return len(left[k].Content) > i && int(left[k].Content[i]) > b })
		}
		left = left[after(int(text[i])-1):after(int(text[i]))]
		if len(left) == 0 {
			break
		}
		if len(left[0].Content) == i+1 {
			n, id = i+1, left[0].ID
		}
	}
	return n, id
}
