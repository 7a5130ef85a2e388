package msl

import (
	"slices"
	"strings"
)

// parameter reads one parameter by its main attribute.
func (u *Unit) parameter(s *signature, p *param) error {
	k := s.kernel
	if p.name == "" {
		return refuse(p.line, "kernel %s: a parameter without a name", k.Name)
	}
	main, optional := -1, false
	for i, a := range p.attributes {
		if a.name == "function_constant" {
			optional = true
			continue
		}
		if main >= 0 {
			return refuse(a.line, "%s of kernel %s has attributes %s and %s: one says where it comes from", p.name, k.Name, p.attributes[main].name, a.name)
		}
		main = i
	}
	if main < 0 {
		return refuse(p.line, "%s of kernel %s has no attribute: write [[buffer(n)]], so that the index doesn't depend on the order", p.name, k.Name)
	}
	a := p.attributes[main]
	switch {
	case a.name == "buffer":
		return u.bufferParam(s, p, a, optional)
	case a.name == "threadgroup":
		return u.threadgroupParam(s, p, a)
	case builtins[a.name] != 0:
		k.builtins = append(k.builtins, a.name)
		return builtinParam(k, p, a)
	case a.name == "texture" || a.name == "sampler":
		return refuse(a.line, "%s of kernel %s: the simulator has no textures", p.name, k.Name)
	}
	return refuse(a.line, "unknown attribute %s on %s of kernel %s", a.name, p.name, k.Name)
}

// bufferParam reads device T* p, constant T& p and the like.
func (u *Unit) bufferParam(s *signature, p *param, a attribute, optional bool) error {
	arg := Arg{Name: p.name, Optional: optional}
	var ok bool
	if arg.Index, ok = u.integer(a.args); !ok {
		return refuse(a.line, "buffer index of %s: write a number, [[buffer(0)]]", p.name)
	}
	if arg.Index < 0 || arg.Index > 30 {
		return refuse(a.line, "buffer(%d) of %s: indices go from 0 to 30", arg.Index, p.name)
	}
	kept, err := arg.qualifiers(s.kernel, p)
	if err != nil {
		return err
	}
	n := len(kept) - 1
	switch {
	case n < 1 || kept[n] != "*" && kept[n] != "&":
		return refuse(p.line, "%s of kernel %s is passed by value: write constant %s& %s [[buffer(%d)]]", p.name, s.kernel.Name, join(p.tokens), p.name, arg.Index)
	case slices.Contains(kept[:n], "*") || slices.Contains(kept[:n], "&"):
		return refuse(p.line, "%s of kernel %s: a pointer to pointers can't be an argument", p.name, s.kernel.Name)
	case arg.Space == "":
		return refuse(p.line, "%s of kernel %s has no address space: write device or constant before its type", p.name, s.kernel.Name)
	}
	arg.Reference = kept[n] == "&"
	arg.Const = arg.Const || arg.Space == "constant"
	arg.Type = strings.Join(kept[:n], " ")
	s.args = append(s.args, arg)
	return nil
}

// qualifiers takes address space and const out of a parameter's type and returns the words left.
func (arg *Arg) qualifiers(k *Kernel, p *param) ([]string, error) {
	var kept []string
	for _, t := range p.tokens {
		switch t.text {
		case "device", "constant":
			if arg.Space != "" {
				return nil, refuse(p.line, "%s of kernel %s has two address spaces: a pointer in a buffer can't be an argument", p.name, k.Name)
			}
			arg.Space = t.text
		case "thread", "threadgroup":
			return nil, refuse(p.line, "%s of kernel %s is in %s memory: a buffer is device or constant", p.name, k.Name, t.text)
		case "const":
			arg.Const = arg.Const || !slices.Contains(kept, "*") // behind the * it is the pointer's
		case "__restrict", "__restrict__":
		default:
			kept = append(kept, t.text)
		}
	}
	return kept, nil
}

func (u *Unit) threadgroupParam(s *signature, p *param, a attribute) error {
	k := s.kernel
	i, ok := u.integer(a.args)
	n := len(p.tokens)
	switch {
	case !ok || i < 0 || i > 30:
		return refuse(a.line, "threadgroup index of %s: indices go from 0 to 30", p.name)
	case slices.Contains(k.Threadgroups, i):
		return refuse(a.line, "kernel %s has two arguments [[threadgroup(%d)]]", k.Name, i)
	case n < 3 || p.tokens[n-1].text != "*" || !slices.ContainsFunc(p.tokens, func(t token) bool { return t.text == "threadgroup" }):
		return refuse(p.line, "%s of kernel %s: write threadgroup T* %s [[threadgroup(%d)]]", p.name, k.Name, p.name, i)
	}
	k.Threadgroups = append(k.Threadgroups, i)
	return nil
}
