package msl

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lilypad/metal"
)

// derived is a file scope constant whose value comes from function constants.
type derived struct {
	name string
	decl int
}

// functionConstants finds [[function_constant(n)]] and what is computed from them at file scope.
func (u *Unit) functionConstants() error {
	for i := range u.decls {
		d := &u.decls[i]
		if d.kind != variable || d.name < 0 {
			continue
		}
		list, rest := u.attributesOf(d.start, d.end)
		for _, a := range list {
			if a.name != "function_constant" {
				continue
			}
			if err := u.functionConstant(i, a, rest); err != nil {
				return err
			}
		}
		if d.value[1] > d.value[0] && u.mentionsConstant(d.value) {
			u.derived = append(u.derived, derived{u.tokens[d.name].text, i})
			if slices.ContainsFunc(rest, func(t token) bool { return t.text == "constexpr" }) {
				return refuse(u.tokens[d.start].line, "%s: a function constant is no constant expression, leave constexpr out", u.tokens[d.name].text)
			}
		}
	}
	return nil
}

func (u *Unit) functionConstant(i int, a attribute, rest []token) error {
	d := &u.decls[i]
	c := FunctionConstant{Name: u.tokens[d.name].text, decl: i}
	var ok bool
	if c.ID, ok = u.integer(a.args); !ok || c.ID < 0 || c.ID > math.MaxUint16 {
		return refuse(a.line, "function constant %s: its id is a number from 0 to 65535", c.Name)
	}
	if d.value[1] > d.value[0] {
		return refuse(a.line, "function constant %s has a value in the source: only the host gives it one", c.Name)
	}
	if d.parent != "" || d.namespace != "" || d.templated {
		return refuse(a.line, "function constant %s: declare it at file scope", c.Name)
	}
	constant := false
	var kept []string
	for _, t := range rest[:len(rest)-1] {
		constant = constant || t.text == "constant"
		if t.text != "constant" && t.text != "const" && t.text != "static" {
			kept = append(kept, t.text)
		}
	}
	c.Type = strings.Join(kept, " ")
	if !constant || !scalars[strings.TrimRight(c.Type, "234")] {
		return refuse(a.line, "function constant %s: write constant T %s [[function_constant(%d)]]; with a scalar or vector type T", c.Name, c.Name, c.ID)
	}
	for _, o := range u.Constants {
		if o.ID == c.ID {
			return refuse(a.line, "function constants %s and %s both have id %d", o.Name, c.Name, c.ID)
		}
	}
	u.Constants = append(u.Constants, c)
	return nil
}

// scalars are the arithmetic types of MSL.
var scalars = map[string]bool{"bool": true, "char": true, "uchar": true, "short": true, "ushort": true, "int": true,
	"uint": true, "long": true, "ulong": true, "half": true, "bfloat": true, "float": true}

// mentionsConstant reports whether tokens [r[0], r[1]) name a function constant or what is derived from one.
func (u *Unit) mentionsConstant(r [2]int) bool {
	for _, t := range u.tokens[r[0]:r[1]] {
		if t.kind == word && u.isConstant(t.text) {
			return true
		}
	}
	return false
}

func (u *Unit) isConstant(name string) bool {
	return slices.ContainsFunc(u.Constants, func(c FunctionConstant) bool { return c.Name == name }) ||
		slices.ContainsFunc(u.derived, func(d derived) bool { return d.name == name })
}

// Uses returns the function constants that a kernel reads, itself or through what it calls. It is nil for an unknown name.
func (u *Unit) Uses(kernel string) []FunctionConstant {
	k := u.Kernel(kernel)
	if k == nil {
		return nil
	}
	var out []FunctionConstant
	seen := map[string]bool{}
	todo := []string{k.body}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, c := range u.Constants {
			if c.Name == name {
				out = append(out, c)
			}
		}
		todo = append(todo, u.mentions(name)...)
	}
	slices.SortFunc(out, func(a, b FunctionConstant) int { return a.ID - b.ID })
	return out
}

// mentions returns the words in all declarations and macros called name.
func (u *Unit) mentions(name string) []string {
	var out []string
	add := func(tokens []token) {
		for _, t := range tokens {
			if t.kind == word && t.text != name {
				out = append(out, t.text)
			}
		}
	}
	for i := range u.decls {
		if d := &u.decls[i]; d.name >= 0 && u.tokens[d.name].text == name {
			add(u.tokens[d.start:min(d.end, len(u.tokens))])
		}
	}
	for _, m := range u.macros {
		if m.name == name {
			add(m.body)
		}
	}
	return out
}

// Check refuses constants that kernel can't be specialised with: each that it uses needs a value of its MSL type, except
// those that is_function_constant_defined asks about.
func (u *Unit) Check(kernel string, constants []metal.Constant) error {
	if u.Kernel(kernel) == nil {
		var names []string
		for _, k := range u.Kernels {
			names = append(names, k.Name)
		}
		return &metal.CompileError{Text: fmt.Sprintf("no kernel %q: there are %s", kernel, strings.Join(names, ", "))}
	}
	for _, c := range u.Uses(kernel) {
		i := slices.IndexFunc(constants, func(v metal.Constant) bool { return v.ID == c.ID })
		if i < 0 && !u.asksFor(c.Name) {
			return &metal.CompileError{Text: fmt.Sprintf("kernel %s: function constant %d (%s %s) has no value", kernel, c.ID, c.Type, c.Name)}
		}
	}
	return u.checkValues(constants)
}

func (u *Unit) checkValues(constants []metal.Constant) error {
	types := map[metal.ConstantType]string{metal.BoolConstant: "bool", metal.IntConstant: "int", metal.UintConstant: "uint", metal.FloatConstant: "float"}
	for _, v := range constants {
		i := slices.IndexFunc(u.Constants, func(c FunctionConstant) bool { return c.ID == v.ID })
		if i < 0 {
			return &metal.CompileError{Text: fmt.Sprintf("the source has no function constant %d", v.ID)}
		}
		if c := u.Constants[i]; c.Type != types[v.Type] {
			return &metal.CompileError{Text: fmt.Sprintf("function constant %d (%s) is %s, not %s", c.ID, c.Name, c.Type, types[v.Type])}
		}
	}
	return nil
}

// asksFor reports whether the source asks if a function constant has a value.
func (u *Unit) asksFor(name string) bool {
	for i := range u.tokens {
		if u.is(i, "is_function_constant_defined") && u.is(i+2, name) {
			return true
		}
	}
	return false
}

// literal writes the value of a function constant as a constant expression.
func literal(v metal.Constant) string {
	switch v.Type {
	case metal.BoolConstant:
		return strconv.FormatBool(v.Bits != 0)
	case metal.IntConstant:
		return fmt.Sprintf("(int)%#xu", v.Bits)
	case metal.FloatConstant:
		f := math.Float32frombits(v.Bits)
		switch {
		case math.IsNaN(float64(f)):
			return `__builtin_nanf("")`
		case math.IsInf(float64(f), 0):
			return strconv.Itoa(int(math.Copysign(1, float64(f)))) + "*__builtin_inff()"
		}
		return strconv.FormatFloat(float64(f), 'x', -1, 32) + "f"
	}
	return fmt.Sprintf("%#xu", v.Bits)
}
