package chat

import (
	"bytes"
	"errors"
	"fmt"
)

// Limits of ParseJSON. The size is far above any context (32,768 tokens); the depth keeps recursion over a Value, here
// and in a template, off the end of the stack; the length of a number is the one Python refuses to convert beyond.
const (
	MaxJSONBytes    = 64 << 20
	maxJSONDepth    = 128
	maxNumberLength = 4300
)

// ParseJSON reads one JSON text (RFC 8259) and nothing after it. Invalid UTF-8 and lone surrogates become U+FFFD, as in
// encoding/json. The error names the byte offset.
func ParseJSON(data []byte) (Value, error) {
	if len(data) > MaxJSONBytes {
		return Value{}, fmt.Errorf("JSON of %d bytes, at most %d", len(data), MaxJSONBytes)
	}
	p := jsonParser{data: data}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.at < len(data) {
		return Value{}, p.fail("text after the JSON value")
	}
	return v, nil
}

// UnmarshalJSON lets a Value be a field of a request.
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := ParseJSON(data)
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

type jsonParser struct {
	data []byte
	at   int
}

func (p *jsonParser) fail(what string) error {
	if p.at >= len(p.data) {
		return errors.New("JSON ends too early")
	}
	return fmt.Errorf("JSON at byte %d: %s", p.at, what)
}

func (p *jsonParser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take consumes c if it is next.
func (p *jsonParser) take(c byte) bool {
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return Value{}, fmt.Errorf("JSON nested deeper than %d", maxJSONDepth)
	}
	if p.at >= len(p.data) {
		return Value{}, p.fail("")
	}
	switch c := p.data[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.str()
		return Value{kind: StringKind, text: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == 'n':
		return Null, p.word("null")
	case c == 't':
		return Bool(true), p.word("true")
	case c == 'f':
		return Bool(false), p.word("false")
	}
	return Value{}, p.fail("not a value")
}

func (p *jsonParser) word(word string) error {
	if !bytes.HasPrefix(p.data[p.at:], []byte(word)) {
		return p.fail("not a value")
	}
	p.at += len(word)
	return nil
}

func (p *jsonParser) object(depth int) (Value, error) {
	p.at++ // {
	var fields []Field
	p.space()
	if p.take('}') {
		return Value{kind: ObjectKind}, nil
	}
	for {
		p.space()
		if p.at >= len(p.data) || p.data[p.at] != '"' {
			return Value{}, p.fail("not a member name")
		}
		name, err := p.str()
		if err != nil {
			return Value{}, err
		}
		p.space()
		if !p.take(':') {
			return Value{}, p.fail("no colon after a member name")
		}
		p.space()
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		fields = append(fields, Field{name, v})
		p.space()
		if p.take('}') {
			return Value{kind: ObjectKind, fields: uniqueFields(fields)}, nil
		}
		if !p.take(',') {
			return Value{}, p.fail("neither a comma nor the end of the object")
		}
	}
}

func (p *jsonParser) array(depth int) (Value, error) {
	p.at++ // [
	var items []Value
	p.space()
	if p.take(']') {
		return Value{kind: ArrayKind}, nil
	}
	for {
		p.space()
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		items = append(items, v)
		p.space()
		if p.take(']') {
			return Value{kind: ArrayKind, items: items}, nil
		}
		if !p.take(',') {
			return Value{}, p.fail("neither a comma nor the end of the array")
		}
	}
}

func (p *jsonParser) number() (Value, error) {
	start := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return Value{}, p.fail("not a digit")
	}
	if p.take('.') && !p.digits() {
		return Value{}, p.fail("not a digit")
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return Value{}, p.fail("not a digit")
		}
	}
	if n := p.at - start; n > maxNumberLength {
		return Value{}, fmt.Errorf("JSON number of %d characters, at most %d", n, maxNumberLength)
	}
	return Value{kind: NumberKind, text: string(p.data[start:p.at])}, nil
}

func (p *jsonParser) digits() bool {
	start := p.at
	for p.at < len(p.data) && '0' <= p.data[p.at] && p.data[p.at] <= '9' {
		p.at++
	}
	return p.at > start
}
