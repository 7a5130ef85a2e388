package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// isSpace is Python's str.isspace for one character: Unicode's white space and the four information separators.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f
}

// strip is Python's str.strip and its one-sided forms: of chars, or of white space if chars is nil.
func strip(s string, chars *string, left, right bool) string {
	drop := isSpace
	if chars != nil {
		drop = func(r rune) bool { return strings.ContainsRune(*chars, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, drop)
	}
	if right {
		s = strings.TrimRightFunc(s, drop)
	}
	return s
}

// splitString is Python's str.split and, from the right, str.rsplit. Without a separator runs of white space separate.
// At most limit cuts are made if it isn't negative.
func splitString(s string, sep *string, limit int, right bool) []string {
	if sep == nil {
		return splitSpace(s, limit, right)
	}
	if *sep == "" {
		fail("the chat template splits by an empty string")
	}
	if limit < 0 {
		return strings.Split(s, *sep)
	}
	if !right {
		return strings.SplitN(s, *sep, limit+1)
	}
	var tail []string
	for ; limit > 0; limit-- {
		at := strings.LastIndex(s, *sep)
		if at < 0 {
			break
		}
		tail = append([]string{s[at+len(*sep):]}, tail...)
		s = s[:at]
	}
	return append([]string{s}, tail...)
}

func splitSpace(s string, limit int, right bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var words []string
	for s = strip(s, nil, !right, right); s != ""; limit-- {
		at := strings.IndexFunc(s, isSpace)
		if right {
			at = strings.LastIndexFunc(s, isSpace)
		}
		switch {
		case limit == 0 || at < 0:
			rest := strip(s, nil, right, !right && limit != 0)
			if right {
				return append([]string{rest}, words...)
			}
			return append(words, rest)
		case right:
			_, n := utf8.DecodeRuneInString(s[at:])
			words = append([]string{s[at+n:]}, words...)
			s = strip(s[:at], nil, false, true)
		default:
			words = append(words, s[:at])
			s = strip(s[at:], nil, true, false)
		}
	}
	return words
}

// splitLines is Python's str.splitlines.
func splitLines(s string, keep bool) []string {
	var lines []string
	for s != "" {
		at := strings.IndexFunc(s, isLineEnd)
		if at < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[at:])
		if strings.HasPrefix(s[at:], "\r\n") {
			n = 2
		}
		end := at
		if keep {
			end += n
		}
		lines = append(lines, s[:end])
		s = s[at+n:]
	}
	return lines
}

func isLineEnd(r rune) bool {
	return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// capitalize is Python's str.capitalize: the first character upper case, the rest lower case.
func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToTitle(s[:n]) + strings.ToLower(s[n:])
}

// titleCase is Python's str.title: each run of letters begins in upper case.
func titleCase(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		letter := unicode.IsLetter(r)
		defer func() { inWord = letter }()
		if letter && !inWord {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

// runeIndex is Python's str.find and str.rfind: an index of characters, -1 if sub is not in s.
func runeIndex(s, sub string, last bool) int {
	at := strings.Index(s, sub)
	if last {
		at = strings.LastIndex(s, sub)
	}
	if at < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:at])
}

// allRunes tells whether s has a character and is has all of them, as Python's str.isdigit and the like do.
func allRunes(s string, is func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0
}

// affixes returns the argument of startswith or endswith: a string or a tuple of strings.
func affixes(v *exec.Value) []string {
	if v.IsList() {
		var all []string
		for _, item := range listOf(v) {
			all = append(all, mustString(item))
		}
		return all
	}
	return []string{mustString(v)}
}

func mustString(v *exec.Value) string {
	if !v.IsString() {
		fail("the chat template takes %s for a string", kindOf(v))
	}
	return v.String()
}
