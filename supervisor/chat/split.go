package chat

import (
	"strings"

	"lilypad/protocol"
)

// Piece is a part of an answer.
type Piece struct {
	Reasoning bool
	Text      string
}

// Split separates the reasoning of an answer from its content while its tokens arrive. It goes by the ids of the think
// markers, so the same letters written with other tokens are text. White space around the reasoning is dropped, as the
// template does when the message comes back, and so is what separates it from the content. How the text was cut into
// tokens changes nothing but the cuts. A Split lives where the stream of tokens does: after a worker is replaced it goes
// on with the next token.
type Split struct {
	open, close int32 // ids of the markers, -1 if the checkpoint has none
	state       splitState
	skip        bool   // white space is dropped until something else comes
	maybeOpen   bool   // an opening marker may come: there was only white space so far
	held        string // white space that may turn out to be the end of the reasoning
	count       int    // tokens of reasoning
}

type splitState int

const (
	inReasoning splitState = iota
	inContent
)

// NewSplit makes a Split for an answer whose prompt ends inside a think block (see OpenThink) or not. An answer that
// opens one itself has its reasoning split off as well.
func NewSplit(added []protocol.AddedToken, startsInReasoning bool) *Split {
	s := &Split{open: -1, close: -1, state: inContent, maybeOpen: true}
	for _, token := range added {
		switch token.Content {
		case thinkOpen:
			s.open = token.ID
		case thinkClose:
			s.close = token.ID
		}
	}
	if startsInReasoning {
		s.state, s.skip = inReasoning, true
	}
	return s
}

// ReasoningTokens counts the tokens of the reasoning so far, its markers included.
func (s *Split) ReasoningTokens() int { return s.count }

// Push takes the next token and returns what is certain by now: nothing or one piece.
func (s *Split) Push(token protocol.Token) []Piece {
	text := token.Text
	if token.ID == s.open && s.maybeOpen {
		// What the detokeniser held back may stand before the marker, as U+FFFD.
		if before := strings.TrimSuffix(text, thinkOpen); strip(before, nil, true, true) == "" {
			s.count++
			s.state, s.skip, s.maybeOpen = inReasoning, true, false
			return nil
		}
	}
	if s.state == inReasoning {
		s.count++
		if token.ID == s.close {
			pieces := s.take(strings.TrimSuffix(text, thinkClose))
			s.state, s.skip, s.maybeOpen, s.held = inContent, true, false, ""
			return pieces
		}
	}
	return s.take(text)
}

// Flush ends the answer with the text that the detokeniser still held (protocol.Done.Text). Reasoning without an end
// stays reasoning.
func (s *Split) Flush(text string) []Piece {
	pieces := s.take(text)
	if s.held != "" {
		pieces = append(pieces, Piece{true, s.held})
		s.held = ""
	}
	return pieces
}

// take sorts text that holds no marker.
func (s *Split) take(text string) []Piece {
	if s.skip {
		text = strip(text, nil, true, false)
	}
	if strip(text, nil, true, false) != "" {
		s.skip, s.maybeOpen = false, false
	}
	if s.state == inReasoning {
		text = s.held + text
		end := len(strip(text, nil, false, true))
		text, s.held = text[:end], text[end:]
	}
	if text == "" {
		return nil
	}
	return []Piece{{s.state == inReasoning, text}}
}

// OpenThink tells whether a prompt ends inside a think block that the template opened.
func OpenThink(prompt []protocol.Span) bool {
	if len(prompt) == 0 {
		return false
	}
	last := prompt[len(prompt)-1]
	return !last.Literal && strings.HasSuffix(strip(last.Text, nil, false, true), thinkOpen)
}

// HasPrefix tells whether a prompt begins with the text of another, literal where it is literal. Only such a prefix can
// have the same tokens, though it need not.
func HasPrefix(prompt, prefix []protocol.Span) bool {
	for i, p := range prefix {
		switch {
		case i >= len(prompt) || prompt[i].Literal != p.Literal:
			return false
		case prompt[i].Text == p.Text:
		case i == len(prefix)-1:
			return strings.HasPrefix(prompt[i].Text, p.Text)
		default:
			return false
		}
	}
	return true
}
