package msl

// kernelForm refuses kernels of a form that Apple's compiler doesn't take, and notes those defined.
func (u *Unit) kernelForm(d *decl, defined map[string]int, i int) error {
	name, line := u.tokens[d.name].text, u.tokens[d.start].line
	switch {
	case d.parent != "":
		return refuse(line, "kernel %s is a member of %s: kernels are free functions", name, d.parent)
	case d.namespace != "":
		return refuse(line, "kernel %s is in a namespace, where the host finds it only as %s%s: put it at file scope", name, d.namespace, name)
	case name == "main":
		return refuse(line, "a function can't be called main")
	case d.kind == instantiation:
		return nil
	case !d.defined:
		return refuse(line, "kernel %s has no body", name)
	case !u.is(d.name-1, "void"):
		return refuse(line, "kernel %s returns a value: write kernel void %s", name, name)
	}
	if _, ok := defined[name]; ok {
		return refuse(line, "kernel %s exists already in line %d: kernels can't be overloaded", name, u.tokens[u.decls[defined[name]].start].line)
	}
	defined[name] = i
	if d.templated {
		u.templates = append(u.templates, i)
	}
	return nil
}

// noKernelCalls refuses kernels that are called.
func (u *Unit) noKernelCalls(defined map[string]int) error {
	for i := range u.decls {
		d := &u.decls[i]
		if d.kind != function {
			continue
		}
		for j := d.body[0]; j < d.body[1]; j++ {
			if _, ok := defined[u.tokens[j].text]; ok && u.is(j+1, "(") && !u.is(j-1, ".") {
				return refuse(u.tokens[j].line, "%s is a kernel and can't be called: put what both do into an inline function", u.tokens[j].text)
			}
		}
	}
	return nil
}
