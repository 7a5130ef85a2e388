package msl

import (
	"cmp"
	"slices"
	"strings"
)

// attribute is one of [[a, b(1)]].
type attribute struct {
	name string
	args []token // without the brackets
	line int
}

// param is a parameter of a kernel.
type param struct {
	tokens     []token // of the type and name, without attributes
	name       string
	attributes []attribute
	line       int
}

// parameters splits tokens [from, to) at their commas.
func (u *Unit) parameters(from, to int) [][2]int {
	var out [][2]int
	start := from
	for i := from; i < to; i++ {
		switch {
		case u.is(i, ","):
			out = append(out, [2]int{start, i})
			start = i + 1
		case u.is(i, "<"):
			if close := u.skipAngles(i, to); close > 0 {
				i = close - 1
			}
		case u.tokens[i].match > i:
			i = u.tokens[i].match
		}
	}
	if start < to {
		out = append(out, [2]int{start, to})
	}
	return out
}

// attributesOf returns the attributes in [from, to) and the tokens outside them.
func (u *Unit) attributesOf(from, to int) (list []attribute, rest []token) {
	for i := from; i < to; i++ {
		t := u.tokens[i]
		if !(t.text == "[" && u.is(i+1, "[") && t.match == u.tokens[i+1].match+1) {
			rest = append(rest, t)
			continue
		}
		for _, a := range u.parameters(i+2, t.match-1) {
			if a[0] >= a[1] {
				continue
			}
			one := attribute{line: t.line}
			j := a[0]
			for ; j < a[1] && (u.isWord(j) || u.is(j, "::")); j++ {
				one.name += u.tokens[j].text
			}
			if u.is(j, "(") {
				one.args = u.tokens[j+1 : u.tokens[j].match]
			}
			list = append(list, one)
		}
		i = t.match
	}
	return list, rest
}

func (u *Unit) param(from, to int) param {
	p := param{line: u.tokens[from].line}
	p.attributes, p.tokens = u.attributesOf(from, to)
	if n := len(p.tokens); n > 1 && p.tokens[n-1].kind == word {
		p.name = p.tokens[n-1].text
		p.tokens = p.tokens[:n-1]
	}
	return p
}

// signature is a kernel's parameters in the order of the source, with what each becomes.
type signature struct {
	kernel *Kernel
	params []param
	args   []Arg // of buffer parameters, in the order of the source
}

// signature reads the parameters of d; names replaces words in their types: the parameters of a template.
func (u *Unit) signature(k *Kernel, d *decl, names map[string]string) (*signature, error) {
	s := &signature{kernel: k}
	for _, r := range u.parameters(d.params[0], d.params[1]) {
		if r[0] >= r[1] {
			return nil, refuse(k.Line, "kernel %s has an empty parameter", k.Name)
		}
		p := u.param(r[0], r[1])
		for i := range p.tokens {
			if n, ok := names[p.tokens[i].text]; ok {
				p.tokens[i].text = n
			}
		}
		if len(p.tokens) == 1 && p.tokens[0].text == "void" && len(d.paramsOf(u)) == 1 {
			continue
		}
		s.params = append(s.params, p)
		if err := u.parameter(s, &s.params[len(s.params)-1]); err != nil {
			return nil, err
		}
	}
	k.Args = slices.Clone(s.args)
	slices.SortFunc(k.Args, func(a, b Arg) int { return cmp.Compare(a.Index, b.Index) })
	for i := 1; i < len(k.Args); i++ {
		if k.Args[i].Index == k.Args[i-1].Index {
			return nil, refuse(k.Line, "kernel %s: %s and %s both have [[buffer(%d)]]", k.Name, k.Args[i-1].Name, k.Args[i].Name, k.Args[i].Index)
		}
	}
	slices.Sort(k.Threadgroups)
	return s, checkBuiltins(k, s.params)
}

func (d *decl) paramsOf(u *Unit) [][2]int { return u.parameters(d.params[0], d.params[1]) }

// join writes tokens as text.
func join(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}
