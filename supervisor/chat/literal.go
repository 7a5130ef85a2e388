package chat

import (
	"slices"
	"strings"

	"lilypad/protocol"
)

// spans tells in plain, the rendering of c, which text that looks like an added token came from the client. It renders
// again with such text marked; where the template looks at it (a think block in a message's content, say), the text is
// left unmarked, as little of it as makes the two renderings equal.
func (t *Template) spans(c Conversation, plain string, seen []clientString, private []rune) ([]protocol.Span, error) {
	s := separation{t: t, c: c, plain: plain, private: private}
	if !slices.ContainsFunc(seen, func(c clientString) bool { return t.tokens.canForm(c.text) }) {
		return []protocol.Span{{Text: plain}}, nil
	}
	if marks, equal := s.try(t.consumedTokens(c, seen)); equal {
		return t.tokens.literal(plain, marks), nil
	}
	marks, equal := s.try(exemption(s.sensitive(units(seen, &t.tokens), nil)))
	if !equal || s.tries > maxTries {
		return nil, &TemplateError{Index: -1, Message: "the chat template treats text that looks like control tokens in a way " +
			"that can't be told from control tokens; take such text out of the messages"}
	}
	return t.tokens.literal(plain, marks), nil
}

// maxTries bounds the search for what must be left unmarked.
const maxTries = 256

type separation struct {
	t       *Template
	c       Conversation
	plain   string
	private []rune
	tries   int
}

// try renders with marks. Only if that changes nothing are the marks of use.
func (s *separation) try(exempt map[int]map[int]bool) (marks []int, equal bool) {
	s.tries++
	m := s.t.newMarker(s.private)
	m.twins, m.exempt = s.private[1:], exempt
	text, err := s.t.text(s.c, m)
	if err != nil {
		return nil, false
	}
	restored, marks := m.restore(text)
	return marks, restored == s.plain
}

// unit is what is left unmarked together: a token in a string, or all its stray edges.
type unit struct{ place, token int }

func units(seen []clientString, tokens *tokenMatcher) []unit {
	var all []unit
	for _, s := range seen {
		all = append(all, unit{s.place, strayEdges})
		for i := range tokens.find(s.text) {
			all = append(all, unit{s.place, i})
		}
	}
	return all
}

func exemption(units []unit) map[int]map[int]bool {
	exempt := map[int]map[int]bool{}
	for _, u := range units {
		if exempt[u.place] == nil {
			exempt[u.place] = map[int]bool{}
		}
		exempt[u.place][u.token] = true
	}
	return exempt
}

// sensitive returns those of the suspects that change the rendering when they are marked and the others are not. The
// rest are all units that are no suspects. It halves the suspects, so one culprit among n takes about 2 log n tries.
func (s *separation) sensitive(suspects, rest []unit) []unit {
	if len(suspects) == 0 || s.tries > maxTries {
		return nil
	}
	if _, equal := s.try(exemption(rest)); equal {
		return nil
	}
	if len(suspects) == 1 {
		return suspects
	}
	half := len(suspects) / 2
	left, right := suspects[:half], suspects[half:]
	join := func(a, b []unit) []unit { return append(append([]unit(nil), a...), b...) }
	return join(s.sensitive(left, join(rest, right)), s.sensitive(right, join(rest, left)))
}

// The tags that the templates of this family look for in a message's content.
const (
	thinkOpen, thinkClose       = "<think>", "</think>"
	responseOpen, responseClose = "<tool_response>", "</tool_response>"
)

// habits are what a template was seen to look at in a message's content when it was tried out.
type habits struct {
	think    bool // it takes reasoning in think tags out of an assistant's content, in old and in new turns
	response bool // it takes a user message in the tags of a tool's response for one
}

// learn finds the habits of a template by rendering tiny conversations with the tags marked and unmarked.
func (t *Template) learn() {
	hello, answer, inline := message("user", "Hello"), message("assistant", "x"), message("assistant", "<think>a</think>b")
	response := message("user", responseOpen+"y"+responseClose)
	t.habits.think = t.looksAt(hello, inline) && t.looksAt(hello, inline, hello)
	t.habits.response = t.looksAt(hello, answer, response)
}

func (t *Template) looksAt(messages ...Value) bool {
	c := Conversation{Messages: messages}
	private := t.private(c)
	plain, err := t.text(c, t.newMarker(private))
	if err != nil {
		return false
	}
	s := separation{t: t, c: c, plain: plain, private: private}
	_, equal := s.try(nil)
	return !equal
}

// consumedTokens says which tokens the template looks at by its habits, which saves the search: in the content of an
// assistant message without reasoning the tags around the reasoning, and the tags around the whole of a user message.
func (t *Template) consumedTokens(c Conversation, seen []clientString) map[int]map[int]bool {
	var consumed []unit
	for _, s := range seen {
		if s.message < 0 || s.field != "content" {
			continue
		}
		m := c.Messages[s.message]
		role, _ := m.Get("role")
		reasoning, _ := m.Get("reasoning_content")
		given, _ := reasoning.Text()
		found := t.tokens.find(s.text)
		switch {
		case t.habits.think && role.text == "assistant" && given == "":
			consumed = append(consumed, thinkTags(s, found)...)
		case t.habits.response && role.text == "user" && len(found) > 1 && wraps(strip(s.text, nil, true, true)):
			consumed = append(consumed, unit{s.place, 0}, unit{s.place, len(found) - 1})
		}
	}
	return exemption(consumed)
}

func wraps(text string) bool {
	return strings.HasPrefix(text, responseOpen) && strings.HasSuffix(text, responseClose)
}

// thinkTags are all closing tags and the opening ones before the first of them: what the template splits by.
func thinkTags(s clientString, found []occurrence) []unit {
	first := strings.Index(s.text, thinkClose)
	var tags []unit
	for i, o := range found {
		switch tag := s.text[o.start:o.end]; {
		case first < 0:
		case tag == thinkClose, tag == thinkOpen && o.start < first:
			tags = append(tags, unit{s.place, i})
		}
	}
	return tags
}
