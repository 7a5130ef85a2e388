package msl

import (
	"strconv"
	"strings"
)

// macro is a #define.
type macro struct {
	name     string
	function bool   // it takes arguments
	body     stream // of the replacement, with offsets in the source
}

// preprocess takes the directives out of the tokens and keeps the macros: rules look at their bodies too. Macros are not
// expanded: clang does that, so both branches of a condition are checked.
func (u *Unit) preprocess() error {
	kept := u.tokens[:0]
	included := false
	for _, t := range u.tokens {
		if t.kind != directive {
			kept = append(kept, t)
			continue
		}
		name, rest := cutDirective(t.text)
		switch name {
		case "include":
			library, err := checkInclude(t.line, rest)
			if err != nil {
				return err
			}
			included = included || library
		case "import":
			return refuse(t.line, "#import: source compiled at run time has no include path")
		case "define":
			if err := u.define(t, rest); err != nil {
				return err
			}
		case "pragma":
			if strings.HasPrefix(strings.TrimSpace(rest), "METAL internals") {
				return refuse(t.line, "#pragma METAL internals: Apple's own headers only")
			}
		case "if", "ifdef", "ifndef", "elif", "else", "endif", "undef", "error", "warning", "line", "":
		default:
			return refuse(t.line, "unknown directive #%s", name)
		}
	}
	u.tokens = kept
	if !included {
		return refuse(1, "metal_stdlib is not included: start with #include <metal_stdlib> and using namespace metal;")
	}
	return pair(u.tokens)
}

func cutDirective(line string) (name, rest string) {
	line = strings.TrimLeft(line[1:], " \t")
	n := span(line, isLetter)
	return line[:n], line[n:]
}

// checkInclude accepts the headers that exist for source compiled at run time, and says whether types and functions come
// with this one.
func checkInclude(line int, rest string) (bool, error) {
	name := strings.TrimSpace(rest)
	if i := strings.IndexByte(name, '>'); i >= 0 {
		name = name[:i+1]
	}
	switch {
	case name == "<metal_stdlib>":
		return true, nil
	case strings.HasPrefix(name, "<metal_"):
		return false, nil
	case strings.HasPrefix(name, "<simd/") || strings.HasPrefix(name, `"`):
		return false, refuse(line, "#include %s: source compiled at run time has no include path; put our own headers into the text", name)
	}
	return false, refuse(line, "#include %s: only <metal_stdlib> and its parts exist, the C++ library does not", name)
}

func (u *Unit) define(t token, rest string) error {
	body := strings.TrimLeft(rest, " \t")
	n := span(body, isLetterOrDigit)
	if n == 0 {
		return refuse(t.line, "#define without a name")
	}
	m := macro{name: body[:n]}
	body = body[n:]
	if strings.HasPrefix(body, "(") {
		end := strings.IndexByte(body, ')')
		if end < 0 {
			return refuse(t.line, "the parameters of macro %s are not closed", m.name)
		}
		m.function = true
		body = body[end+1:]
	}
	skipped := len(t.text) - len(body)
	line := t.line + strings.Count(t.text[:skipped], "\n")
	s := &scanner{source: body, line: line}
	for s.at < len(body) {
		if err := s.step(); err != nil {
			return err
		}
	}
	for i := range s.tokens {
		s.tokens[i].at += t.at + skipped
	}
	m.body = s.tokens
	_ = pair(m.body) // a macro may open what another closes
	u.macros = append(u.macros, m)
	return nil
}

// integer evaluates sums of integer literals and of macros that stand for one: what indices of attributes are made of.
func (u *Unit) integer(tokens []token) (int, bool) { return u.sum(tokens, 3) }

// longestSum bounds the work of sum: macros may name macros.
const longestSum = 15

func (u *Unit) sum(tokens []token, depth int) (int, bool) {
	total, sign, operand := 0, 1, true
	if len(tokens) > longestSum {
		return 0, false
	}
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if !operand {
			if t.text != "+" && t.text != "-" {
				return 0, false
			}
			sign, operand = 1, true
			if t.text == "-" {
				sign = -1
			}
			continue
		}
		value, ok := 0, false
		switch {
		case t.kind == number:
			v, err := strconv.ParseInt(strings.TrimRight(t.text, "uU"), 0, 32)
			value, ok = int(v), err == nil
		case t.kind == word && depth > 0:
			value, ok = u.macroValue(t.text, depth-1)
		case t.text == "(" && t.match >= 0 && depth > 0:
			end, level := i+1, 1
			for ; end < len(tokens) && level > 0; end++ {
				level += nesting(tokens[end].text)
			}
			if level > 0 {
				return 0, false
			}
			value, ok = u.sum(tokens[i+1:end-1], depth-1)
			i = end - 1
		}
		if !ok {
			return 0, false
		}
		total, operand = total+sign*value, false
	}
	return total, !operand
}

func nesting(t string) int {
	switch t {
	case "(":
		return 1
	case ")":
		return -1
	}
	return 0
}

func (u *Unit) macroValue(name string, depth int) (int, bool) {
	for _, m := range u.macros {
		if m.name == name && !m.function {
			return u.sum(m.body, depth)
		}
	}
	return 0, false
}
