package chat

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkCharacters finds what gonja's lexer reads forever: digits of other scripts, and such, in an expression. In strings
// and in text all characters are good.
func checkCharacters(source string) error {
	for at := 0; at < len(source); {
		open := strings.IndexByte(source[at:], '{')
		if open < 0 || at+open+1 == len(source) {
			return nil
		}
		at += open + 2
		switch source[at-1] {
		case '#':
			end := strings.Index(source[at:], "#}")
			if end < 0 {
				return nil // an error of gonja's
			}
			at += end + 2
		case '{', '%':
			end, err := checkTag(source, at)
			if err != nil {
				return err
			}
			at = end
		default:
			at-- // it may be a brace too
		}
	}
	return nil
}

// checkTag goes on after {{ or {% and returns where the tag ends.
func checkTag(source string, at int) (end int, err error) {
	closer := map[byte]string{'{': "}}", '%': "%}"}[source[at-1]]
	quote, depth := byte(0), 0
	for ; at < len(source); at++ {
		c := source[at]
		switch {
		case quote != 0 && c == '\\':
			at++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c >= utf8.RuneSelf:
			return 0, fmt.Errorf("line %d: an expression with a character that is not ASCII", 1+strings.Count(source[:at], "\n"))
		case c == '"' || c == '\'':
			quote = c
		case depth <= 0 && strings.HasPrefix(source[at:], closer):
			return at + len(closer), nil
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
	}
	return at, nil
}
