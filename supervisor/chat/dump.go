package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonStyle is what Python's json.dumps lets a template choose. The zero value is not usable; see plainStyle.
type jsonStyle struct {
	comma, colon string
	indent       string // with multiline: one level
	multiline    bool
	sortKeys     bool
	ascii        bool
	literal      bool // numbers as they were written
}

// plainStyle is json.dumps(ensure_ascii=False), which transformers makes of the tojson filter.
var plainStyle = jsonStyle{comma: ", ", colon: ": "}

// AppendJSON appends v exactly as Python's json.dumps(v, ensure_ascii=False) prints what json.loads made of it.
func (v Value) AppendJSON(dst []byte) []byte { return plainStyle.append(dst, v, 0) }

// JSON returns what AppendJSON appends.
func (v Value) JSON() string { return string(v.AppendJSON(nil)) }

// MarshalJSON makes a Value a field of a struct that is marshalled; numbers keep their text.
func (v Value) MarshalJSON() ([]byte, error) {
	return jsonStyle{comma: ",", colon: ":", literal: true}.append(nil, v, 0), nil
}

func (s jsonStyle) append(dst []byte, v Value, level int) []byte {
	switch v.kind {
	case BoolKind:
		return strconv.AppendBool(dst, v.truth)
	case NumberKind:
		if s.literal {
			return append(dst, v.text...)
		}
		return append(dst, pythonNumber(v.text)...)
	case StringKind:
		return s.appendString(dst, v.text)
	case ArrayKind:
		dst = append(dst, '[')
		for i, item := range v.items {
			dst = s.appendSeparator(dst, i, level+1)
			dst = s.append(dst, item, level+1)
		}
		return append(s.appendEnd(dst, len(v.items), level), ']')
	case ObjectKind:
		fields := v.fields
		if s.sortKeys {
			fields = slices.Clone(fields)
			slices.SortStableFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		}
		dst = append(dst, '{')
		for i, f := range fields {
			dst = s.appendSeparator(dst, i, level+1)
			dst = append(s.appendString(dst, f.Name), s.colon...)
			dst = s.append(dst, f.Value, level+1)
		}
		return append(s.appendEnd(dst, len(fields), level), '}')
	}
	return append(dst, "null"...)
}

// appendSeparator goes before element i.
func (s jsonStyle) appendSeparator(dst []byte, i, level int) []byte {
	if i > 0 {
		dst = append(dst, s.comma...)
	}
	return s.appendLine(dst, level)
}

// appendEnd goes before the closing bracket of n elements.
func (s jsonStyle) appendEnd(dst []byte, n, level int) []byte {
	if n == 0 {
		return dst
	}
	return s.appendLine(dst, level)
}

func (s jsonStyle) appendLine(dst []byte, level int) []byte {
	if !s.multiline {
		return dst
	}
	dst = append(dst, '\n')
	for range level {
		dst = append(dst, s.indent...)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

func (s jsonStyle) appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf && s.ascii {
			r, n := utf8.DecodeRuneInString(text[i:])
			dst = appendEscaped(append(dst, text[start:i]...), r)
			i += n
			start = i
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && (c != 0x7f || !s.ascii) {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = appendEscaped(dst, rune(c))
		}
		i++
		start = i
	}
	return append(append(dst, text[start:]...), '"')
}

// appendEscaped appends r as one or two \uXXXX.
func appendEscaped(dst []byte, r rune) []byte {
	if r > 0xFFFF {
		r -= 0x10000
		return appendEscaped(appendEscaped(dst, 0xD800+r>>10), 0xDC00+r&0x3FF)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// pythonNumber prints a JSON number as Python does after reading it: an int keeps its digits, anything with a point or an
// exponent is a float in its shortest form.
func pythonNumber(literal string) string {
	if literal == "-0" {
		return "0"
	}
	if !strings.ContainsAny(literal, ".eE") {
		return literal
	}
	f, _ := strconv.ParseFloat(literal, 64) // out of range gives an infinity, as in Python
	return pythonFloat(f)
}

// pythonFloat is repr(float), with the names that json.dumps has for what is no number. Python changes to an exponent
// below 1e-4 and from 1e16.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64) // two digits of exponent at least, as in Python
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
