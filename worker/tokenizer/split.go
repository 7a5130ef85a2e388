package tokenizer

import "unicode/utf8"

// piece returns the length in bytes of the first piece of text, which is not empty. It is the regular expression of Parse,
// leftmost-first, as a scanner:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)            contraction
//	[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+         letters, with one character of another kind before them
//	\p{N}                                   one number character
//	 ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*          others, with one space before and line ends after them
//	\s*[\r\n]+|\s+(?!\S)|\s+                white space
//
// The text must end where ordinary text ends (at an added token), since (?!\S) looks at it.
func (t *classTable) piece(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	first, n := t.at(text, 0)
	second := other
	if n < len(text) {
		second, _ = t.at(text, n)
	}
	lineEnd := text[0] == '\r' || text[0] == '\n'
	switch {
	case first == letter:
		return t.run(text, n, letter)
	case first == number:
		return n
	case second == letter && n < len(text) && !lineEnd:
		return t.run(text, n, letter)
	case first == other:
		return lineEnds(text, t.run(text, n, other))
	case second == other && n < len(text) && text[0] == ' ':
		return lineEnds(text, t.run(text, n, other))
	default:
		return t.spaces(text)
	}
}

// contraction returns the length of the English contraction that text starts with, or 0. Case folds as in Unicode: the
// long s is an s; none of the other letters has a partner outside ASCII.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(text) > 2 && text[2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if len(text) > 2 && text[2]|0x20 == 'l' {
			return 3
		}
	}
	const longS = "ſ"
	if len(text) > len(longS) && text[1:1+len(longS)] == longS {
		return 1 + len(longS)
	}
	return 0
}

// at returns the class and the length of the character at text[i:]. A byte that is no UTF-8 is of class other.
func (t *classTable) at(text string, i int) (class, int) {
	if c := text[i]; c < utf8.RuneSelf {
		return t[c], 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return t[r], n
}

// run returns the end of the characters of class c from i on.
func (t *classTable) run(text string, i int, c class) int {
	for i < len(text) {
		is, n := t.at(text, i)
		if is != c {
			break
		}
		i += n
	}
	return i
}

// lineEnds returns the end of the line ends from i on.
func lineEnds(text string, i int) int {
	for i < len(text) && (text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// spaces returns the length of the piece at the start of text, which starts with white space: up to the last line end of
// the run of white space; without one, the run less its last character, unless the text ends there or nothing would remain.
func (t *classTable) spaces(text string) int {
	end, last, afterLine := 0, 0, 0
	for end < len(text) {
		c, n := t.at(text, end)
		if c != space {
			break
		}
		last = end
		if text[end] == '\r' || text[end] == '\n' {
			afterLine = end + 1
		}
		end += n
	}
	switch {
	case afterLine > 0:
		return afterLine
	case end == len(text) || last == 0:
		return end
	default:
		return last
	}
}
