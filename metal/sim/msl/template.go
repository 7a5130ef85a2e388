package msl

import (
	"fmt"
	"strings"
)

// instance is one named instantiation of a kernel template. It becomes a kernel with a copy of the template's body, in
// which the template's parameters are local types and constants: clang takes neither template kernels nor threadgroup
// memory outside kernels.
type instance struct {
	decl, template int
	signature      *signature
	names          map[string]string // type parameters
	locals         string            // declarations of the template's parameters
}

// instantiate reads template [[host_name("x")]] kernel void f<...>(...);
func (u *Unit) instantiate(d *decl, attributes []attribute, defined map[string]int) error {
	name := u.tokens[d.name].text
	line := u.tokens[d.start].line
	index, ok := defined[name]
	if !ok || !u.decls[index].templated {
		return refuse(line, "no template of a kernel %s before this instantiation", name)
	}
	t := &u.decls[index]
	k := Kernel{Name: name, Line: line, body: name}
	_, inherited := u.kernelHead(t)
	if err := u.head(&k, append(inherited[:len(inherited):len(inherited)], attributes...)); err != nil {
		return err
	}
	if k.Name == name {
		return refuse(line, `instantiation of kernel %s without [[host_name("...")]]: all of them would have one name`, name)
	}
	in := instance{template: index, names: map[string]string{}}
	for i := range u.decls {
		if &u.decls[i] == d {
			in.decl = i
		}
	}
	if err := u.bind(&in, t, d.name+1); err != nil {
		return err
	}
	var err error
	if in.signature, err = u.signature(&k, t, in.names); err != nil {
		return err
	}
	in.signature.kernel = &k
	u.instances = append(u.instances, in)
	return u.addKernel(k)
}

// bind gives the template's parameters the arguments in <...> at token i, or their defaults.
func (u *Unit) bind(in *instance, t *decl, i int) error {
	line := u.tokens[i-1].line
	var args [][2]int
	if u.is(i, "<") {
		close := u.skipAngles(i, len(u.tokens))
		if close < 0 {
			return refuse(line, "template arguments that are not closed")
		}
		args = u.parameters(i+1, close-1)
	}
	params := u.parameters(t.template[0], t.template[1])
	if len(args) > len(params) {
		return refuse(line, "%d template arguments for %d parameters", len(args), len(params))
	}
	for n, p := range params {
		equals := u.find(p[0], p[1], "=")
		value := [2]int{equals + 1, p[1]}
		if n < len(args) {
			value = args[n]
		} else if equals == p[1] {
			return refuse(line, "%d template arguments for %d parameters", len(args), len(params))
		}
		name := equals - 1
		if name <= p[0] || !u.isWord(name) {
			return refuse(u.tokens[t.start].line, "a template parameter of a kernel without a name, or a pack: name each")
		}
		text := join(u.tokens[value[0]:value[1]])
		if u.is(p[0], "typename") || u.is(p[0], "class") {
			in.names[u.tokens[name].text] = text
			in.locals += fmt.Sprintf(" using %s = %s;", u.tokens[name].text, text)
			continue
		}
		in.locals += fmt.Sprintf(" constexpr %s %s = %s;", join(u.tokens[p[0]:name]), u.tokens[name].text, text)
	}
	return nil
}

// edit writes the instance where the source has the instantiation.
func (in *instance) edit(u *Unit, edits []edit) edit {
	d, t := &u.decls[in.decl], &u.decls[in.template]
	open, close := u.tokens[t.body[0]-1], u.tokens[t.body[1]]
	from, to := u.tokens[d.start].at, u.tokens[d.end].end()
	line := u.tokens[d.end].line
	var b strings.Builder
	fmt.Fprintf(&b, "\n#line %d \"kernel.metal\"\n%s%s", open.line, in.signature.head(), in.locals)
	b.WriteString(u.render(open.end(), close.end(), edits))
	fmt.Fprintf(&b, "\n#line %d \"kernel.metal\"\n", line)
	return edit{from, to, b.String()}
}
