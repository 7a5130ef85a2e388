package chat

import (
	"strconv"
	"strings"
)

// Kind tells what a Value holds.
type Kind uint8

// The kinds of Value; the zero Value is null.
const (
	NullKind Kind = iota
	BoolKind
	NumberKind
	StringKind
	ArrayKind
	ObjectKind
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// String names the kind in an error message ("a string").
func (k Kind) String() string { return kindNames[k] }

// Value is a JSON value as a client sent it: objects keep the order of their keys and numbers their text, because a
// template prints tools and arguments again and the model has seen them printed in their own order. A Value is
// immutable; copies share memory.
type Value struct {
	kind   Kind
	truth  bool
	text   string // of a string, or a number's literal
	items  []Value
	fields []Field
}

// Field is one member of an object.
type Field struct {
	Name  string
	Value Value
}

// Null is the JSON null.
var Null = Value{}

// Bool makes a boolean.
func Bool(b bool) Value { return Value{kind: BoolKind, truth: b} }

// String makes a string. Bytes that are no UTF-8 become U+FFFD.
func String(s string) Value {
	return Value{kind: StringKind, text: strings.ToValidUTF8(s, "\uFFFD")}
}

// Int makes a number.
func Int(n int64) Value { return Value{kind: NumberKind, text: strconv.FormatInt(n, 10)} }

// Array makes an array.
func Array(items ...Value) Value { return Value{kind: ArrayKind, items: items} }

// Object makes an object. Of fields with one name the last value counts, at the place of the first, as in Python.
func Object(fields ...Field) Value {
	return Value{kind: ObjectKind, fields: uniqueFields(fields)}
}

// Kind tells what v holds.
func (v Value) Kind() Kind { return v.kind }

// IsNull tells whether v is null (or the zero Value).
func (v Value) IsNull() bool { return v.kind == NullKind }

// Text returns the string that v holds; ok is false for another kind.
func (v Value) Text() (s string, ok bool) {
	if v.kind != StringKind {
		return "", false
	}
	return v.text, true
}

// Truth returns the boolean that v holds; ok is false for another kind.
func (v Value) Truth() (b, ok bool) { return v.truth, v.kind == BoolKind }

// Number returns the literal of the number that v holds; ok is false for another kind.
func (v Value) Number() (literal string, ok bool) {
	if v.kind != NumberKind {
		return "", false
	}
	return v.text, true
}

// Items returns the elements of an array, nil for another kind. They must not be changed.
func (v Value) Items() []Value { return v.items }

// Fields returns the members of an object in order, nil for another kind. They must not be changed.
func (v Value) Fields() []Field { return v.fields }

// Get returns the member called name; ok is false if there is none or v is no object.
func (v Value) Get(name string) (member Value, ok bool) {
	for i := range v.fields {
		if v.fields[i].Name == name {
			return v.fields[i].Value, true
		}
	}
	return Value{}, false
}

// With returns a copy of the object v in which name has the given value: at its old place, or at the end.
func (v Value) With(name string, value Value) Value {
	fields := make([]Field, 0, len(v.fields)+1)
	found := false
	for _, f := range v.fields {
		if f.Name == name {
			f.Value, found = value, true
		}
		fields = append(fields, f)
	}
	if !found {
		fields = append(fields, Field{name, value})
	}
	return Value{kind: ObjectKind, fields: fields}
}

// Without returns a copy of the object v that has no member called name.
func (v Value) Without(name string) Value {
	fields := make([]Field, 0, len(v.fields))
	for _, f := range v.fields {
		if f.Name != name {
			fields = append(fields, f)
		}
	}
	return Value{kind: ObjectKind, fields: fields}
}

// uniqueFields drops repeated names in linear time.
func uniqueFields(fields []Field) []Field {
	if len(fields) < 2 {
		return fields
	}
	at := make(map[string]int, len(fields))
	unique := make([]Field, 0, len(fields))
	for _, f := range fields {
		if i, repeated := at[f.Name]; repeated {
			unique[i].Value = f.Value
			continue
		}
		at[f.Name] = len(unique)
		unique = append(unique, f)
	}
	return unique
}
