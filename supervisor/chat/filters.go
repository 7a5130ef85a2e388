package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// filters are the ones that templates use on text and JSON, with Python's meaning, and a few of gonja's own for lists
// and numbers.
var filters = func() map[string]exec.FilterFunction {
	set := map[string]exec.FilterFunction{}
	for _, name := range []string{"abs", "batch", "dictsort", "float", "groupby", "int", "map", "max", "min", "reject",
		"rejectattr", "round", "select", "selectattr", "slice", "sort", "sum", "unique"} {
		filter, ok := builtins.Filters.Get(name)
		if !ok {
			panic("BUG: gonja has no filter " + name)
		}
		set[name] = filter
	}
	for name, filter := range map[string]func(v *exec.Value, a arguments) any{
		"tojson":     func(v *exec.Value, a arguments) any { return string(jsonStyleOf(a).append(nil, fromTemplate(v), 0)) },
		"items":      filterItems,
		"default":    filterDefault,
		"trim":       func(v *exec.Value, a arguments) any { return strip(printed(v), a.text(0, "chars"), true, true) },
		"string":     func(v *exec.Value, _ arguments) any { return printed(v) },
		"safe":       func(v *exec.Value, _ arguments) any { return v },
		"length":     func(v *exec.Value, _ arguments) any { return length(v) },
		"list":       func(v *exec.Value, _ arguments) any { return toList(listOf(v)) },
		"join":       filterJoin,
		"first":      func(v *exec.Value, _ arguments) any { return pick(listOf(v), false) },
		"last":       func(v *exec.Value, _ arguments) any { return pick(listOf(v), true) },
		"reverse":    filterReverse,
		"lower":      func(v *exec.Value, _ arguments) any { return strings.ToLower(printed(v)) },
		"upper":      func(v *exec.Value, _ arguments) any { return strings.ToUpper(printed(v)) },
		"title":      func(v *exec.Value, _ arguments) any { return titleCase(printed(v)) },
		"capitalize": func(v *exec.Value, _ arguments) any { return capitalize(printed(v)) },
		"indent":     filterIndent,
		"replace":    func(v *exec.Value, a arguments) any { return replace(printed(v), a) },
	} {
		set[name] = func(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
			if in.IsError() {
				return in
			}
			return exec.ToValue(filter(in, arguments{params}))
		}
	}
	set[tickName] = tickFilter
	for alias, name := range map[string]string{"d": "default", "count": "length"} {
		set[alias] = set[name]
	}
	return set
}()

// printed is Python's str; an undefined value is empty.
func printed(v *exec.Value) string { return v.String() }

// jsonStyleOf reads the arguments that transformers gives its tojson.
func jsonStyleOf(a arguments) jsonStyle {
	style := plainStyle
	style.ascii = a.truth(0, "ensure_ascii")
	style.sortKeys = a.truth(3, "sort_keys")
	if indent := a.get(1, "indent"); indent != nil && !isNone(indent) {
		style.multiline, style.comma = true, ","
		if indent.IsString() {
			style.indent = indent.String()
		} else {
			style.indent = strings.Repeat(" ", min(max(a.number(1, "indent", 0), 0), 64))
		}
	}
	if separators := a.get(2, "separators"); separators != nil && separators.IsList() && separators.Len() == 2 {
		style.comma, style.colon = separators.Index(0).String(), separators.Index(1).String()
	}
	return style
}

func filterItems(v *exec.Value, _ arguments) any {
	switch {
	case isUndefined(v):
		return []any{}
	case !v.IsDict():
		fail("the chat template lists the items of %s", kindOf(v))
	}
	return pairList(v)
}

// filterDefault replaces an undefined value and, with a second argument that is true, everything that is false.
func filterDefault(v *exec.Value, a arguments) any {
	if !isUndefined(v) && (!a.truth(1, "boolean") || v.IsTrue()) {
		return v
	}
	if fallback := a.get(0, "default_value"); fallback != nil {
		return fallback
	}
	return ""
}

func filterJoin(v *exec.Value, a arguments) any {
	sep := ""
	if s := a.text(0, "d"); s != nil {
		sep = *s
	}
	if attribute := a.text(1, "attribute"); attribute != nil {
		var members []*exec.Value
		for _, item := range listOf(v) {
			member, _ := item.GetItem(*attribute)
			members = append(members, member)
		}
		v = toList(members)
	}
	return joinStrings(sep, v)
}

func filterReverse(v *exec.Value, _ arguments) any {
	list := listOf(v)
	slices.Reverse(list)
	if v.IsString() {
		return joinStrings("", toList(list))
	}
	return toList(list)
}

func pick(list []*exec.Value, last bool) any {
	switch {
	case len(list) == 0:
		return exec.AsValue(nil)
	case last:
		return list[len(list)-1]
	}
	return list[0]
}

// filterIndent indents all lines but the first and empty ones, unless told otherwise.
func filterIndent(v *exec.Value, a arguments) any {
	indent := strings.Repeat(" ", 4)
	if width := a.get(0, "width"); width != nil && width.IsString() {
		indent = width.String()
	} else if width != nil {
		indent = strings.Repeat(" ", min(max(a.number(0, "width", 4), 0), 64))
	}
	lines := strings.Split(printed(v), "\n")
	checkString(len(lines) * len(indent))
	for i, line := range lines {
		if (i > 0 || a.truth(1, "first")) && (line != "" || a.truth(2, "blank")) {
			lines[i] = indent + line
		}
	}
	return strings.Join(lines, "\n")
}

// tests are Jinja2's. A test of gonja's takes none for undefined and any value for a boolean.
var tests = func() map[string]exec.TestFunction {
	set := map[string]exec.TestFunction{}
	for _, name := range []string{"divisibleby", "even", "odd", "eq", "equalto", "==", "ne", "!=", "ge", ">=", "gt",
		"greaterthan", ">", "le", "<=", "lt", "lessthan", "<", "in"} {
		test, ok := builtins.Tests.Get(name)
		if !ok {
			panic("BUG: gonja has no test " + name)
		}
		set[name] = test
	}
	for name, test := range map[string]func(v *exec.Value) bool{
		"defined":   func(v *exec.Value) bool { return !isUndefined(v) },
		"undefined": isUndefined,
		"none":      isNone,
		"boolean":   func(v *exec.Value) bool { return v.IsBool() },
		"true":      func(v *exec.Value) bool { return v.IsBool() && v.Bool() },
		"false":     func(v *exec.Value) bool { return v.IsBool() && !v.Bool() },
		"string":    func(v *exec.Value) bool { return v.IsString() },
		"integer":   func(v *exec.Value) bool { return v.IsInteger() || isBigInt(v) },
		"float":     func(v *exec.Value) bool { return v.IsFloat() },
		"number":    func(v *exec.Value) bool { return v.IsNumber() || v.IsBool() || isBigInt(v) },
		"mapping":   func(v *exec.Value) bool { return v.IsDict() },
		"iterable":  isIterable,
		"sequence":  isIterable,
		"callable":  func(v *exec.Value) bool { return v.IsCallable() },
		"lower":     func(v *exec.Value) bool { s := printed(v); return strings.ToLower(s) == s && strings.ToUpper(s) != s },
		"upper":     func(v *exec.Value) bool { s := printed(v); return strings.ToUpper(s) == s && strings.ToLower(s) != s },
	} {
		set[name] = func(_ *exec.Context, in *exec.Value, _ *exec.VarArgs) (bool, error) {
			if in.IsError() {
				return false, fmt.Errorf("%w", in)
			}
			return test(in), nil
		}
	}
	return set
}()

// isIterable is Jinja2's: an undefined value is an empty iterable.
func isIterable(v *exec.Value) bool {
	return v.IsString() || v.IsDict() || isList(v) || isUndefined(v)
}

func isBigInt(v *exec.Value) bool {
	_, ok := v.Interface().(*bigInt)
	return ok
}
