package msl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lilypad/metal"
)

// edit replaces the bytes [at, end) of the source.
type edit struct {
	at, end int
	text    string
}

// prelude is what every C++ text starts with. Constant references are arguments that the target may pass by value: its
// part of the header may define the two macros before.
const prelude = `#include <metal_stdlib>
#ifndef __SIM_CONSTANTS
#define __SIM_CONSTANTS(name, ...) constant __VA_ARGS__* __restrict __sim_arg_##name
#define __SIM_CONSTANTS_BODY(name, ...) constant __VA_ARGS__& name = *__sim_arg_##name;
#endif
`

// C returns the source as C++ for OpenCL, its function constants being constant expressions with the values of constants;
// those without a value are zero, so ask Check first. Lines keep their numbers. The text includes <metal_stdlib>.
func (u *Unit) C(constants []metal.Constant) (string, error) {
	if err := u.checkValues(constants); err != nil {
		return "", err
	}
	edits := slices.Clone(u.edits)
	for _, c := range u.Constants {
		i := slices.IndexFunc(constants, func(v metal.Constant) bool { return v.ID == c.ID })
		value := c.Type + "(0)"
		if i >= 0 {
			value = literal(constants[i])
		}
		edits = over(edits, u.replaceDecl(&u.decls[c.decl], fmt.Sprintf("static __constant constexpr %s %s = %s;", c.Type, c.Name, value)))
		edits = append(edits, u.definedEdits(c.Name, i >= 0)...)
	}
	return u.assemble(edits), nil
}

// Probe returns the same text with function constants whose values the compiler can't know: compiled for its syntax only,
// it refuses them where a constant expression is needed, as Apple's compiler does.
func (u *Unit) Probe() string {
	edits := slices.Clone(u.edits)
	for _, c := range u.Constants {
		edits = over(edits, u.replaceDecl(&u.decls[c.decl], fmt.Sprintf("extern __constant %s %s;", c.Type, c.Name)))
		edits = append(edits, u.definedEdits(c.Name, true)...)
	}
	for _, v := range u.derived {
		d := &u.decls[v.decl]
		_, rest := u.attributesOf(d.start, d.value[0])
		head := strings.ReplaceAll(join(rest), "constant", "__constant")
		head = strings.TrimPrefix(head, "static ")
		value := u.render(u.tokens[d.value[0]].end(), u.tokens[d.end].at, edits)
		probe := fmt.Sprintf("extern %s; inline void __sim_probe_%s() { auto x = %s; }", head, v.name, value)
		edits = over(edits, u.replaceDecl(d, probe))
	}
	return u.assemble(edits)
}

// over adds an edit and drops those inside it.
func over(edits []edit, e edit) []edit {
	edits = slices.DeleteFunc(edits, func(o edit) bool { return e.at <= o.at && o.end <= e.end })
	return append(edits, e)
}

// replaceDecl replaces a whole declaration and keeps its lines.
func (u *Unit) replaceDecl(d *decl, with string) edit {
	from, to := u.tokens[d.start].at, u.tokens[min(d.end, len(u.tokens)-1)].end()
	return u.replace(from, to, with)
}

// replace pads with the line feeds that it takes away.
func (u *Unit) replace(from, to int, with string) edit {
	missing := strings.Count(u.source[from:to], "\n") - strings.Count(with, "\n")
	return edit{from, to, with + strings.Repeat("\n", max(missing, 0))}
}

// definedEdits answers is_function_constant_defined(name).
func (u *Unit) definedEdits(name string, value bool) []edit {
	var out []edit
	for i := range u.tokens {
		if u.is(i, "is_function_constant_defined") && u.is(i+1, "(") && u.is(i+2, name) && u.is(i+3, ")") {
			out = append(out, u.replace(u.tokens[i].at, u.tokens[i+3].end(), fmt.Sprint(value)))
		}
	}
	return out
}

// assemble applies edits to the whole source and expands the instances of templates.
func (u *Unit) assemble(edits []edit) string {
	for _, i := range u.instances {
		edits = append(edits, i.edit(u, edits))
	}
	for _, i := range u.templates {
		d := &u.decls[i]
		from, to := u.tokens[d.start].at, u.tokens[d.end-1].end()
		edits = over(edits, u.replace(from, to, ""))
	}
	return prelude + "#line 1 \"kernel.metal\"\n" + u.render(0, len(u.source), edits)
}

// render returns the bytes [from, to) of the source with the edits inside them.
func (u *Unit) render(from, to int, edits []edit) string {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range sorted {
		if e.at < from || e.end > to {
			continue
		}
		b.WriteString(u.source[from:e.at])
		b.WriteString(e.text)
		from = e.end
	}
	b.WriteString(u.source[from:to])
	return b.String()
}

// rewriteKernel replaces the head of a kernel.
func (u *Unit) rewriteKernel(d *decl, s *signature) {
	from, open := u.tokens[d.start].at, u.tokens[d.body[0]-1]
	u.edits = append(u.edits, u.replace(from, open.end(), s.head()))
}

// head writes the kernel's head up to and with the brace, and the locals that stand for what are no arguments in C++.
func (s *signature) head() string {
	var params []string
	var locals strings.Builder
	for _, a := range s.kernel.Args {
		t := a.Type
		qualified := a.Space + " " + t
		if a.Const && a.Space == "device" {
			qualified = "device const " + t
		}
		switch {
		case a.Reference && a.Space == "constant":
			params = append(params, fmt.Sprintf("__SIM_CONSTANTS(%s, %s)", a.Name, t))
			fmt.Fprintf(&locals, " __SIM_CONSTANTS_BODY(%s, %s)", a.Name, t)
		case a.Reference:
			params = append(params, fmt.Sprintf("%s* __restrict __sim_arg_%s", qualified, a.Name))
			fmt.Fprintf(&locals, " %s& %s = *__sim_arg_%s;", qualified, a.Name, a.Name)
		default:
			params = append(params, fmt.Sprintf("%s* __restrict %s", qualified, a.Name))
		}
	}
	for _, p := range s.params {
		for _, a := range p.attributes {
			t := join(p.tokens)
			switch {
			case builtins[a.name] != 0:
				bare := strings.TrimSpace(strings.ReplaceAll(t, "const", ""))
				fmt.Fprintf(&locals, " %s %s = __sim_%s<%s>();", t, p.name, a.name, bare)
			case a.name == "threadgroup":
				fmt.Fprintf(&locals, " %s %s = (%s)__sim_threadgroup(%s);", t, p.name, t, join(a.args))
			}
		}
	}
	return fmt.Sprintf("__kernel void %s(%s) {%s", s.kernel.Name, strings.Join(params, ", "), locals.String())
}

// rewrite collects the edits of all that is not a kernel's head.
func (u *Unit) rewrite() error {
	for i := range u.decls {
		d := &u.decls[i]
		if kernel, _ := u.kernelHead(d); kernel && d.defined {
			if err := u.initialisers(d.body); err != nil {
				return err
			}
		}
		if d.kind == variable {
			u.programScope(d)
		}
	}
	u.words(u.tokens)
	for _, m := range u.macros {
		u.words(m.body)
	}
	return nil
}

// programScope turns constant at file scope into __constant: a target may give constant another meaning, which is right
// for pointers only.
func (u *Unit) programScope(d *decl) {
	for i := d.start; i < d.name; i++ {
		if u.is(i, "constant") && !u.is(d.name-1, "*") && !u.is(d.name-1, "&") {
			t := u.tokens[i]
			u.edits = append(u.edits, edit{t.at, t.end(), "__constant"})
			return
		}
	}
}

// words rewrites what means the same wherever it stands.
func (u *Unit) words(s stream) {
	for i, t := range s {
		switch {
		case t.kind == number:
			u.bfloatLiteral(t)
		case t.text == "if" && s.is(i+1, "constexpr"):
			u.edits = append(u.edits, u.replace(t.at, s[i+1].end(), ifConstexpr))
		}
	}
}

// ifConstexpr stands for if constexpr, which Apple's compiler takes in MSL 3.1, alone of what C++17 brought: clang is
// told to refuse the rest.
const ifConstexpr = `_Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpre-c++17-compat\"") if constexpr _Pragma("clang diagnostic pop")`

// bfloatLiteral writes 1.5bf as a constructor call.
func (u *Unit) bfloatLiteral(t token) {
	for _, suffix := range []string{"bf", "BF"} {
		if v, ok := strings.CutSuffix(t.text, suffix); ok && !strings.HasPrefix(v, "0x") {
			u.edits = append(u.edits, edit{t.at, t.end(), "bfloat(" + v + "f)"})
		}
	}
}

// initialisers splits threadgroup T x = v; into a declaration and an assignment by every thread, which is what it means.
func (u *Unit) initialisers(body [2]int) error {
	for i := body[0]; i < body[1]; i++ {
		if !u.is(i, "threadgroup") || !u.tokens.startsStatement(i) {
			continue
		}
		end := u.find(i, body[1], ";")
		equals := u.find(i, end, "=")
		if equals == end || u.is(equals-2, "*") || u.is(equals-2, "&") || u.is(equals-2, "const") {
			continue
		}
		if !u.isWord(equals-1) || u.find(i, end, ",") < end {
			return refuse(u.tokens[i].line, "threadgroup memory with an initialiser: only one scalar can have it, threads fill arrays")
		}
		t := u.tokens[equals]
		u.edits = append(u.edits, edit{t.at, t.end(), "; " + u.tokens[equals-1].text + " ="})
	}
	return nil
}
