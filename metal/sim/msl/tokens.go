package msl

import "strings"

type kind uint8

const (
	word        kind = iota + 1 // identifiers and keywords
	number                      // numeric literals with their suffix
	text                        // string and character literals
	punctuation                 // one operator
	directive                   // a preprocessor line, with its continuation lines
)

// token is a piece of the source; comments and white space are between the tokens.
type token struct {
	kind  kind
	text  string
	at    int // byte offset in the source
	line  int // counted from 1
	match int // index of the partner of a bracket ( ) [ ] { }, -1 for others
}

func (t token) end() int { return t.at + len(t.text) }

// operators of more than one character, longest first. >> is left as two tokens, so that templates nest.
var operators = []string{"...", "<<=", ">>=", "->*", "::", "->", "++", "--", "<<", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", ".*"}

// scanner cuts source into tokens.
type scanner struct {
	source string
	at     int
	line   int
	fresh  bool // nothing but white space came before on this line
	tokens []token
}

// scan cuts source, whose first line is line and which starts at byte base of the whole, and pairs its brackets.
func scan(source string, base, line int) ([]token, error) {
	s := &scanner{source: source, line: line, fresh: true}
	for s.at < len(source) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	for i := range s.tokens {
		s.tokens[i].at += base
	}
	return s.tokens, pair(s.tokens)
}

func (s *scanner) step() error {
	rest := s.source[s.at:]
	c := rest[0]
	switch {
	case c == '\n':
		s.at++
		s.line++
		s.fresh = true
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		s.at++
	case strings.HasPrefix(rest, "\\\n"):
		s.skip(2)
	case strings.HasPrefix(rest, "//"):
		s.skip(lineLength(rest))
	case strings.HasPrefix(rest, "/*"):
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			return refuse(s.line, "a comment that is not closed")
		}
		s.skip(end + 4)
	case c == '#' && s.fresh:
		s.take(directive, lineLength(rest))
	case isLetter(c):
		s.take(word, span(rest, isLetterOrDigit))
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		s.take(number, numberLength(rest))
	case c == '"' || c == '\'':
		n := quotedLength(rest)
		if n == 0 {
			return refuse(s.line, "a literal that is not closed on its line")
		}
		s.take(text, n)
	case c >= 0x80 || c < ' ' || strings.IndexByte("$@`\\", c) >= 0:
		return refuse(s.line, "the character %q, which no MSL token holds", rest[:1])
	default:
		s.take(punctuation, operatorLength(rest))
	}
	return nil
}

// skip passes over n bytes and counts their lines.
func (s *scanner) skip(n int) {
	s.line += strings.Count(s.source[s.at:s.at+n], "\n")
	s.at += n
}

func (s *scanner) take(k kind, n int) {
	s.tokens = append(s.tokens, token{kind: k, text: s.source[s.at : s.at+n], at: s.at, line: s.line, match: -1})
	s.skip(n)
	s.fresh = false
}

// lineLength is the length of the line that s starts with, and of those that continue it, without the last line feed.
func lineLength(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}

func quotedLength(s string) int {
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// numberLength is the length of a preprocessing number: it takes a sign after an exponent.
func numberLength(s string) int {
	hex := strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
	i := 0
	for i < len(s) {
		c := s[i] | 0x20
		exponent := !hex && c == 'e' || hex && c == 'p'
		switch {
		case exponent && i+1 < len(s) && (s[i+1] == '+' || s[i+1] == '-'):
			i += 2
		case isLetterOrDigit(s[i]) || s[i] == '.':
			i++
		default:
			return i
		}
	}
	return i
}

func operatorLength(s string) int {
	for _, o := range operators {
		if strings.HasPrefix(s, o) {
			return len(o)
		}
	}
	return 1
}

func span(s string, in func(byte) bool) int {
	i := 0
	for i < len(s) && in(s[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool         { return '0' <= c && c <= '9' }
func isLetter(c byte) bool        { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isLetterOrDigit(c byte) bool { return isLetter(c) || isDigit(c) }

// pair sets match of all brackets. Angle brackets are not brackets here: skipAngles finds their ends where a type may stand.
func pair(tokens []token) error {
	var open []int
	for i, t := range tokens {
		if t.kind != punctuation || len(t.text) != 1 {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if len(open) == 0 {
				return refuse(t.line, "%s closes nothing", t.text)
			}
			o := open[len(open)-1]
			open = open[:len(open)-1]
			if strings.Index("([{", tokens[o].text) != strings.Index(")]}", t.text) {
				return refuse(t.line, "%s closes the %s of line %d", t.text, tokens[o].text, tokens[o].line)
			}
			tokens[o].match, tokens[i].match = i, o
		}
	}
	if len(open) > 0 {
		o := tokens[open[len(open)-1]]
		return refuse(o.line, "%s is not closed", o.text)
	}
	return nil
}
