package chat

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// marker puts private-use characters in the place of the first and last characters of added tokens in what a client
// sent, one for one, so that after the rendering it can be told where a token's text came from. A marker sees the
// strings of one rendering in order.
type marker struct {
	tokens      *tokenMatcher
	twins       []rune // for each rune of tokens.edges; nil just records
	edges       *strings.Replacer
	placeholder string // a string that passes unchanged, see lateSystemText
	exempt      map[int]map[int]bool

	n       int // strings seen
	message int // index of the message being converted, -1 outside of messages
	field   string
	seen    []clientString // when recording
}

// clientString is a string, or the name of a member, that came from the client and holds an edge of a token.
type clientString struct {
	place   int // among all strings
	message int
	field   string // of the message
	text    string
}

// strayEdges stands for the edges in a string that belong to no whole token, in marker.exempt.
const strayEdges = -1

func (m *marker) enter(message int, field string) {
	if m != nil {
		m.message, m.field = message, field
	}
}

// restart makes m ready to see the strings of a rendering from the first on.
func (m *marker) restart() { m.n, m.seen = 0, nil }

func (m *marker) mark(text string) string {
	if m == nil || m.placeholder != "" && text == m.placeholder {
		return text
	}
	place := m.n
	m.n++
	if !strings.ContainsAny(text, m.tokens.edges) {
		return text
	}
	if m.twins == nil {
		m.seen = append(m.seen, clientString{place, m.message, m.field, text})
		return text
	}
	exempt := m.exempt[place]
	if len(exempt) == 0 {
		return m.replaceEdges(text)
	}
	return m.markSome(text, exempt)
}

func (m *marker) replaceEdges(text string) string {
	if m.edges == nil {
		var pairs []string
		for i, edge := range []rune(m.tokens.edges) {
			pairs = append(pairs, string(edge), string(m.twins[i]))
		}
		m.edges = strings.NewReplacer(pairs...)
	}
	return m.edges.Replace(text)
}

// markSome marks all tokens but the exempt ones.
func (m *marker) markSome(text string, exempt map[int]bool) string {
	var out strings.Builder
	end := 0
	stray := func(piece string) {
		if !exempt[strayEdges] {
			piece = m.replaceEdges(piece)
		}
		out.WriteString(piece)
	}
	for i, o := range m.tokens.find(text) {
		if o.start < end {
			continue
		}
		stray(text[end:o.start])
		token := text[o.start:o.end]
		if !exempt[i] {
			token = m.replaceEdges(token)
		}
		out.WriteString(token)
		end = o.end
	}
	stray(text[end:])
	return out.String()
}

// restore puts the characters back and returns the byte offsets of those that were marked.
func (m *marker) restore(text string) (plain string, marks []int) {
	var out strings.Builder
	out.Grow(len(text))
	edges := []rune(m.tokens.edges)
	for {
		at := strings.IndexByte(text, privateByte)
		if at < 0 {
			out.WriteString(text)
			return out.String(), marks
		}
		out.WriteString(text[:at])
		r, n := utf8.DecodeRuneInString(text[at:])
		if i := slices.Index(m.twins, r); i >= 0 {
			marks = append(marks, out.Len())
			r = edges[i]
		}
		out.WriteRune(r)
		text = text[at+n:]
	}
}

// The private-use plane that twins are taken from.
const (
	privateFirst = 0xF0000
	privateLast  = 0xFFFFD
	privateByte  = 0xF3 // begins each of them in UTF-8
)

// freePrivate returns n private-use characters that are in none of the texts.
func freePrivate(n int, each func(visit func(text string))) []rune {
	used := map[rune]bool{}
	each(func(text string) {
		if strings.IndexByte(text, privateByte) < 0 {
			return
		}
		for _, r := range text {
			if privateFirst <= r && r <= privateLast {
				used[r] = true
			}
		}
	})
	var free []rune
	for r := rune(privateFirst); r <= privateLast && len(free) < n; r++ {
		if !used[r] {
			free = append(free, r)
		}
	}
	return free
}

// eachString visits every string of a conversation.
func eachString(c Conversation, visit func(string)) {
	var walk func(v Value)
	walk = func(v Value) {
		visit(v.text)
		for _, item := range v.items {
			walk(item)
		}
		for _, f := range v.fields {
			visit(f.Name)
			walk(f.Value)
		}
	}
	for _, list := range [][]Value{c.Messages, c.Tools} {
		for _, v := range list {
			walk(v)
		}
	}
	for _, name := range optionNames(c) {
		walk(c.Options[name])
	}
}

func optionNames(c Conversation) []string { return slices.Sorted(maps.Keys(c.Options)) }
