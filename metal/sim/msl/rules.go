package msl

import "slices"

// Each rule is a function; its error says what to write instead.

// tokenRules runs the refusals that look at few neighbouring tokens, wherever these stand.
func (u *Unit) tokenRules() error {
	rules := []func(stream) error{
		refuseWords, refuseLongLong, refuseLiterals, refuseCommaVectors, refuseStructuredBindings, refuseLambdas,
		refuseThreadgroupBool, refuseMemoryOrders, u.refuseSwizzles, refuseCasts,
	}
	streams := []stream{u.tokens}
	for _, m := range u.macros {
		streams = append(streams, m.body)
	}
	for _, s := range streams {
		for _, rule := range rules {
			if err := rule(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// declarationRules runs the refusals that look at a whole declaration.
func (u *Unit) declarationRules() error {
	rules := []func(*decl) error{
		u.refuseNames, u.refuseGlobals, u.refuseVariadic, u.refuseStatics, u.refusePointers, u.refuseVectorConditions, u.refuseMethods,
	}
	for i := range u.decls {
		for _, rule := range rules {
			if err := rule(&u.decls[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseNames refuses names that Apple's headers take.
func (u *Unit) refuseNames(d *decl) error {
	if d.name < 0 || d.parent != "" || d.namespace != "" {
		return nil
	}
	t := u.tokens[d.name]
	switch {
	case t.text == "main" && d.kind == function:
		return refuse(t.line, "a function can't be called main")
	case (d.kind == alias || d.kind == record) && slices.Contains([]string{"quad", "complex", "matrix", "array", "vec"}, t.text):
		return refuse(t.line, "type %s exists in Apple's headers: choose another name", t.text)
	case (d.kind == function && !d.isOperator(u, d.name) || d.kind == variable) && slices.Contains(metalNames, t.text):
		return refuse(t.line, "%s at file scope meets metal::%s, which using namespace metal brings: choose another name", t.text, t.text)
	}
	return nil
}

// metalNames are the names in namespace metal that programs are most likely to want.
var metalNames = []string{"select", "step", "dot", "array", "vec", "matrix", "uniform", "access", "sampler", "length", "sign", "mix", "clamp", "saturate", "fma", "exp", "log"}

// refuseGlobals refuses variables at file scope and static members outside constant memory.
func (u *Unit) refuseGlobals(d *decl) error {
	if d.kind != variable || d.name < 0 {
		return nil
	}
	head := stream(u.tokens[d.start:d.name])
	t := u.tokens[d.name]
	if d.parent != "" && !head.has("static") {
		return nil
	}
	if head.has("inline") {
		return refuse(t.line, "%s: inline variables come with MSL 4.0, leave inline out", t.text)
	}
	if !head.has("constant") {
		return refuse(t.line, "%s: variables at file scope and static members are in constant memory, write constant constexpr T %s = ...;", t.text, t.text)
	}
	return nil
}

// refuseVariadic refuses f(int n, ...).
func (u *Unit) refuseVariadic(d *decl) error {
	if d.kind == function && d.params[1] > d.params[0] && u.is(d.params[1]-1, "...") && !u.isWord(d.params[1]-2) {
		return refuse(u.tokens[d.start].line, "%s takes any number of arguments: overload it or make it a template", u.tokens[d.name].text)
	}
	return nil
}

// refuseStatics refuses static locals.
func (u *Unit) refuseStatics(d *decl) error {
	if d.kind != function {
		return nil
	}
	for i := d.body[0]; i < d.body[1]; i++ {
		if u.is(i, "static") {
			return refuse(u.tokens[i].line, "static local: functions have no memory of their own, write constexpr for a constant")
		}
	}
	return nil
}
