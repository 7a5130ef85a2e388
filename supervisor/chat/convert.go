package chat

import (
	"math/big"
	"reflect"
	"strconv"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// null is Python's None in a template: false, printed as None, without members, and not what gonja takes for undefined.
// Gonja sees an empty array.
type null [0]struct{}

func (null) String() string { return "None" }

var none = exec.AsValue(null{})

func isNone(v *exec.Value) bool {
	_, ok := v.Interface().(null)
	return ok
}

func isList(v *exec.Value) bool { return v.IsList() && !isNone(v) }

// isUndefined tells whether v is what gonja gives for a variable or member that isn't there.
func isUndefined(v *exec.Value) bool { return !v.Val.IsValid() }

// toTemplate converts v for a template; every string in it, names of members too, goes through text.
func toTemplate(v Value, text func(string) string) *exec.Value {
	switch v.kind {
	case BoolKind:
		return exec.AsValue(v.truth)
	case NumberKind:
		return exec.AsValue(templateNumber(v.text))
	case StringKind:
		return exec.AsValue(text(v.text))
	case ArrayKind:
		return exec.AsValue(templateList(v.items, text))
	case ObjectKind:
		if len(v.fields) == 0 {
			return exec.AsValue(map[string]any{}) // an empty *exec.Dict counts as true
		}
		pairs := make([]*exec.Pair, len(v.fields))
		for i, f := range v.fields {
			pairs[i] = &exec.Pair{Key: exec.AsValue(text(f.Name)), Value: toTemplate(f.Value, text)}
		}
		return exec.AsValue(&exec.Dict{Pairs: pairs})
	}
	return none
}

func templateList(items []Value, text func(string) string) []any {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = toTemplate(item, text)
	}
	return list
}

// bigInt is an integer beyond int64, which a template can print but not calculate with.
type bigInt struct{ literal string }

func (b *bigInt) String() string { return b.literal }

func templateNumber(literal string) any {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return int(n)
	}
	if _, ok := new(big.Int).SetString(literal, 10); ok {
		return &bigInt{literal}
	}
	f, _ := strconv.ParseFloat(literal, 64) // out of range gives an infinity, as in Python
	return f
}

// fromTemplate converts a value of a template back, to print it as JSON.
func fromTemplate(v *exec.Value) Value {
	if isUndefined(v) {
		fail("the chat template prints an undefined value as JSON")
	}
	switch x := v.Interface().(type) {
	case null:
		return Null
	case string:
		return Value{kind: StringKind, text: x}
	case bool:
		return Bool(x)
	case int:
		return Int(int64(x))
	case float64:
		return Value{kind: NumberKind, text: pythonFloat(x)}
	case *bigInt:
		return Value{kind: NumberKind, text: x.literal}
	case *exec.Dict, map[string]any:
		pairs := dictPairs(v)
		fields := make([]Field, len(pairs))
		for i, p := range pairs {
			fields[i] = Field{p.Key.String(), fromTemplate(p.Value)}
		}
		return Value{kind: ObjectKind, fields: fields}
	}
	if !isList(v) {
		fail("the chat template prints %s as JSON", v.Val.Kind())
	}
	items := make([]Value, v.Len())
	for i := range items {
		items[i] = fromTemplate(v.Index(i))
	}
	return Array(items...)
}

// dictPairs returns the members of a mapping in order; ones of a Go map, which only a template makes, by name.
func dictPairs(v *exec.Value) []*exec.Pair {
	if dict, ok := v.Interface().(*exec.Dict); ok {
		return dict.Pairs
	}
	var pairs []*exec.Pair
	for _, key := range v.Keys() {
		value, _ := v.GetItem(key.String())
		pairs = append(pairs, &exec.Pair{Key: key, Value: value})
	}
	return pairs
}

// listOf returns the elements of what a for loop would iterate over.
func listOf(v *exec.Value) []*exec.Value {
	var list []*exec.Value
	switch {
	case v.IsString():
		for _, r := range v.String() {
			list = append(list, exec.AsValue(string(r)))
		}
	case v.IsDict():
		for _, p := range dictPairs(v) {
			list = append(list, p.Key)
		}
	case v.IsList():
		for i := range v.Len() {
			list = append(list, v.Index(i))
		}
	}
	return list
}

// toList makes a list for a template.
func toList(values []*exec.Value) *exec.Value {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return exec.AsValue(list)
}

// length is Python's len.
func length(v *exec.Value) int {
	if !v.IsString() && !v.IsDict() && !isList(v) {
		fail("the chat template takes the length of %s", kindOf(v))
	}
	return v.Len()
}

// kindOf names the type of a template's value in a message.
func kindOf(v *exec.Value) string {
	switch {
	case isUndefined(v):
		return "an undefined value"
	case isNone(v):
		return "None"
	case v.IsString():
		return "a string"
	case v.IsBool():
		return "a boolean"
	case v.IsNumber():
		return "a number"
	case v.IsDict():
		return "a mapping"
	case v.IsList():
		return "a list"
	case v.Val.Kind() == reflect.Func:
		return "a function"
	}
	return "a value"
}
