package msl

import (
	"slices"
	"strings"
)

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

// kernelHead says whether d is a kernel and returns the attributes before its name.
func (u *Unit) kernelHead(d *decl) (bool, []attribute) {
	if d.kind != function && d.kind != instantiation || d.name < 0 {
		return false, nil
	}
	list, rest := u.attributesOf(d.start, d.name)
	kernel := slices.ContainsFunc(rest, func(t token) bool { return t.text == "kernel" }) ||
		slices.ContainsFunc(list, func(a attribute) bool { return a.name == "kernel" })
	return kernel, list
}

// kernels reads the signatures of all kernels and checks them.
func (u *Unit) kernels() error {
	defined := map[string]int{}
	for i := range u.decls {
		d := &u.decls[i]
		kernel, attributes := u.kernelHead(d)
		if !kernel {
			continue
		}
		if err := u.kernelForm(d, defined, i); err != nil {
			return err
		}
		var err error
		switch {
		case d.kind == instantiation:
			err = u.instantiate(d, attributes, defined)
		case !d.templated:
			err = u.plainKernel(d, attributes)
		}
		if err != nil {
			return err
		}
	}
	return u.noKernelCalls(defined)
}

func (u *Unit) plainKernel(d *decl, attributes []attribute) error {
	k := Kernel{Name: u.tokens[d.name].text, Line: u.tokens[d.start].line}
	k.body = k.Name
	if err := u.head(&k, attributes); err != nil {
		return err
	}
	s, err := u.signature(&k, d, nil)
	if err != nil {
		return err
	}
	u.rewriteKernel(d, s)
	return u.addKernel(k)
}

func (u *Unit) addKernel(k Kernel) error {
	if old := u.Kernel(k.Name); old != nil {
		return refuse(k.Line, "kernel %s exists already in line %d: kernels can't be overloaded, and host names are unique", k.Name, old.Line)
	}
	u.Kernels = append(u.Kernels, k)
	return nil
}

// head reads the attributes of the kernel itself.
func (u *Unit) head(k *Kernel, attributes []attribute) error {
	for _, a := range attributes {
		switch a.name {
		case "kernel":
		case "host_name":
			if len(a.args) != 1 || a.args[0].kind != text || len(a.args[0].text) < 3 {
				return refuse(a.line, `host_name takes one string: [[host_name("name")]]`)
			}
			k.Name = strings.Trim(a.args[0].text, `"`)
			if span(k.Name, isLetterOrDigit) != len(k.Name) || isDigit(k.Name[0]) {
				return refuse(a.line, "host name %q: the simulator wants an identifier", k.Name)
			}
		case "max_total_threads_per_threadgroup":
			n, ok := u.integer(a.args)
			if !ok || n < 1 || n > 1024 {
				return refuse(a.line, "max_total_threads_per_threadgroup takes a number from 1 to 1024")
			}
			k.MaxThreads = n
		default:
			return refuse(a.line, "unknown attribute %s on kernel %s", a.name, k.Name)
		}
	}
	return nil
}
