package chat

import (
	"strconv"
	"unicode/utf8"
)

// str reads a string; the next byte is its opening quote.
func (p *jsonParser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			s := string(p.data[start:p.at])
			p.at++
			return s, nil
		case c == '\\' || c >= utf8.RuneSelf:
			return p.slowString(append([]byte(nil), p.data[start:p.at]...))
		case c < ' ':
			return "", p.fail("a control character in a string")
		}
		p.at++
	}
	return "", p.fail("")
}

// slowString goes on after the plain characters in buf.
func (p *jsonParser) slowString(buf []byte) (string, error) {
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return string(buf), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			buf = utf8.AppendRune(buf, r)
		case c < ' ':
			return "", p.fail("a control character in a string")
		default:
			r, n := utf8.DecodeRune(p.data[p.at:])
			buf = utf8.AppendRune(buf, r) // RuneError is U+FFFD
			p.at += n
		}
	}
	return "", p.fail("")
}

var simpleEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape reads one escape sequence, both halves of a surrogate pair.
func (p *jsonParser) escape() (rune, error) {
	p.at++ // backslash
	if p.at >= len(p.data) {
		return 0, p.fail("")
	}
	c := p.data[p.at]
	p.at++
	if r, ok := simpleEscapes[c]; ok {
		return r, nil
	}
	if c != 'u' {
		p.at--
		return 0, p.fail("an unknown escape in a string")
	}
	high, err := p.hex4()
	if err != nil {
		return 0, err
	}
	if high < 0xD800 || high > 0xDBFF {
		return high, nil // a lone low surrogate is written as U+FFFD by AppendRune
	}
	if rest := p.data[p.at:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		p.at += 2
		low, err := p.hex4()
		if err != nil {
			return 0, err
		}
		if 0xDC00 <= low && low <= 0xDFFF {
			return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
		}
		p.at -= 6 // not its other half: read it again on its own
	}
	return utf8.RuneError, nil
}

func (p *jsonParser) hex4() (rune, error) {
	if len(p.data)-p.at < 4 {
		p.at = len(p.data)
		return 0, p.fail("")
	}
	n, err := strconv.ParseUint(string(p.data[p.at:p.at+4]), 16, 32)
	if err != nil {
		return 0, p.fail("not four hexadecimal digits")
	}
	p.at += 4
	return rune(n), nil
}
