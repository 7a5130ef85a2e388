package chat

import (
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// arguments reads the arguments of a call, by place or by name.
type arguments struct{ *exec.VarArgs }

// get returns an argument, nil if it is absent.
func (a arguments) get(place int, name string) *exec.Value {
	if place >= 0 && place < len(a.Args) {
		return a.Args[place]
	}
	if v, ok := a.KwArgs[name]; ok {
		return v
	}
	return nil
}

// text returns a string argument, nil if it is absent or None.
func (a arguments) text(place int, name string) *string {
	v := a.get(place, name)
	if v == nil || isUndefined(v) || isNone(v) {
		return nil
	}
	s := mustString(v)
	return &s
}

func (a arguments) mustText(place int, name string) string {
	s := a.text(place, name)
	if s == nil {
		fail("the chat template leaves out an argument %s", name)
	}
	return *s
}

func (a arguments) number(place int, name string, absent int) int {
	v := a.get(place, name)
	if v == nil || isUndefined(v) || isNone(v) {
		return absent
	}
	if !v.IsInteger() {
		fail("the chat template takes %s for an integer", kindOf(v))
	}
	return v.Integer()
}

func (a arguments) truth(place int, name string) bool {
	v := a.get(place, name)
	return v != nil && v.IsTrue()
}

// method is a method of Python's, called on a value of its type.
type method func(self *exec.Value, a arguments) any

// stringMethods are those of Python's str.
var stringMethods = func() map[string]method {
	set := map[string]method{}
	for name, call := range map[string]func(s string, a arguments) any{
		"strip":        func(s string, a arguments) any { return strip(s, a.text(0, "chars"), true, true) },
		"lstrip":       func(s string, a arguments) any { return strip(s, a.text(0, "chars"), true, false) },
		"rstrip":       func(s string, a arguments) any { return strip(s, a.text(0, "chars"), false, true) },
		"split":        func(s string, a arguments) any { return split(s, a, false) },
		"rsplit":       func(s string, a arguments) any { return split(s, a, true) },
		"splitlines":   func(s string, a arguments) any { return stringList(splitLines(s, a.truth(0, "keepends"))) },
		"partition":    func(s string, a arguments) any { return partition(s, a.mustText(0, "sep"), false) },
		"rpartition":   func(s string, a arguments) any { return partition(s, a.mustText(0, "sep"), true) },
		"startswith":   func(s string, a arguments) any { return hasAffix(s, a, strings.HasPrefix) },
		"endswith":     func(s string, a arguments) any { return hasAffix(s, a, strings.HasSuffix) },
		"removeprefix": func(s string, a arguments) any { return strings.TrimPrefix(s, a.mustText(0, "prefix")) },
		"removesuffix": func(s string, a arguments) any { return strings.TrimSuffix(s, a.mustText(0, "suffix")) },
		"replace":      replace,
		"find":         func(s string, a arguments) any { return runeIndex(s, a.mustText(0, "sub"), false) },
		"rfind":        func(s string, a arguments) any { return runeIndex(s, a.mustText(0, "sub"), true) },
		"count":        func(s string, a arguments) any { return strings.Count(s, a.mustText(0, "sub")) },
		"join":         func(s string, a arguments) any { return joinStrings(s, a.get(0, "iterable")) },
		"lower":        func(s string, _ arguments) any { return strings.ToLower(s) },
		"upper":        func(s string, _ arguments) any { return strings.ToUpper(s) },
		"title":        func(s string, _ arguments) any { return titleCase(s) },
		"capitalize":   func(s string, _ arguments) any { return capitalize(s) },
		"isdigit":      func(s string, _ arguments) any { return allRunes(s, unicode.IsDigit) },
		"isalpha":      func(s string, _ arguments) any { return allRunes(s, unicode.IsLetter) },
		"isspace":      func(s string, _ arguments) any { return allRunes(s, isSpace) },
		"isalnum": func(s string, _ arguments) any {
			return allRunes(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
		},
	} {
		set[name] = func(self *exec.Value, a arguments) any { return call(self.String(), a) }
	}
	return set
}()

func split(s string, a arguments, right bool) []any {
	return stringList(splitString(s, a.text(0, "sep"), a.number(1, "maxsplit", -1), right))
}

func replace(s string, a arguments) any {
	old, replacement, limit := a.mustText(0, "old"), a.mustText(1, "new"), a.number(2, "count", -1)
	checkString(len(s) + strings.Count(s, old)*len(replacement))
	return strings.Replace(s, old, replacement, limit)
}

func partition(s, sep string, last bool) []any {
	if last {
		if at := strings.LastIndex(s, sep); at >= 0 {
			return []any{s[:at], sep, s[at+len(sep):]}
		}
		return []any{"", "", s}
	}
	before, after, found := strings.Cut(s, sep)
	if !found {
		sep = ""
	}
	return []any{before, sep, after}
}

func hasAffix(s string, a arguments, has func(s, affix string) bool) bool {
	v := a.get(0, "affix")
	if v == nil {
		fail("the chat template compares with nothing")
	}
	for _, affix := range affixes(v) {
		if has(s, affix) {
			return true
		}
	}
	return false
}

func joinStrings(sep string, v *exec.Value) string {
	if v == nil {
		return ""
	}
	var parts []string
	size := 0
	for _, item := range listOf(v) {
		parts = append(parts, item.String())
		size += len(sep) + len(parts[len(parts)-1])
		checkString(size)
	}
	return strings.Join(parts, sep)
}

func stringList(parts []string) []any {
	list := make([]any, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	return list
}

// dictMethods are those of Python's dict that change nothing.
var dictMethods = map[string]method{
	"items": func(self *exec.Value, _ arguments) any { return pairList(self) },
	"keys":  func(self *exec.Value, _ arguments) any { return toList(listOf(self)) },
	"values": func(self *exec.Value, _ arguments) any {
		var values []*exec.Value
		for _, p := range dictPairs(self) {
			values = append(values, p.Value)
		}
		return toList(values)
	},
	"get": func(self *exec.Value, a arguments) any {
		if value, ok := self.GetItem(a.mustText(0, "key")); ok {
			return value
		}
		if fallback := a.get(1, "default"); fallback != nil {
			return fallback
		}
		return none
	},
}

// pairList is what dict.items() and the filter items give: pairs that a for loop takes apart.
func pairList(v *exec.Value) []any {
	pairs := dictPairs(v)
	list := make([]any, len(pairs))
	for i, p := range pairs {
		list[i] = []any{p.Key, p.Value}
	}
	return list
}

// listMethods are those of Python's list that change nothing, since gonja copies lists. The sandbox of transformers
// refuses the others too.
var listMethods = map[string]method{
	"index": func(self *exec.Value, a arguments) any {
		wanted := a.get(0, "value")
		for i, item := range listOf(self) {
			if wanted != nil && item.EqualValueTo(wanted) {
				return i
			}
		}
		fail("the chat template looks for an element that isn't there")
		return nil
	},
	"count": func(self *exec.Value, a arguments) any {
		n, wanted := 0, a.get(0, "value")
		for _, item := range listOf(self) {
			if wanted != nil && item.EqualValueTo(wanted) {
				n++
			}
		}
		return n
	},
}
