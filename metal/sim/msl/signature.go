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
	k := s.kernel
	arg := Arg{Name: p.name, Optional: optional}
	var ok bool
	if arg.Index, ok = u.integer(a.args); !ok {
		return refuse(a.line, "buffer index of %s: write a number, [[buffer(0)]]", p.name)
	}
	if arg.Index < 0 || arg.Index > 30 {
		return refuse(a.line, "buffer(%d) of %s: indices go from 0 to 30", arg.Index, p.name)
	}
	var kept []string
	for i, t := range p.tokens {
		switch t.text {
		case "device", "constant":
			if arg.Space != "" {
				return refuse(p.line, "%s of kernel %s has two address spaces: a pointer in a buffer can't be an argument", p.name, k.Name)
			}
			arg.Space = t.text
		case "thread", "threadgroup":
			return refuse(p.line, "%s of kernel %s is in %s memory: a buffer is device or constant", p.name, k.Name, t.text)
		case "const":
			if !slices.Contains(kept, "*") {
				arg.Const = true
			}
		case "volatile":
			kept = append(kept, t.text)
		case "__restrict", "__restrict__":
		case "*", "&":
			if i > 0 && slices.Contains(kept, "*") || slices.Contains(kept, "&") {
				return refuse(p.line, "%s of kernel %s: a pointer to pointers can't be an argument", p.name, k.Name)
			}
			arg.Reference = t.text == "&"
			kept = append(kept, t.text)
		default:
			kept = append(kept, t.text)
		}
	}
	n := len(kept) - 1
	if n < 0 || kept[n] != "*" && kept[n] != "&" {
		return refuse(p.line, "%s of kernel %s is passed by value: write constant %s& %s [[buffer(%d)]]", p.name, k.Name, join(p.tokens), p.name, arg.Index)
	}
	if arg.Space == "" {
		return refuse(p.line, "%s of kernel %s has no address space: write device or constant before its type", p.name, k.Name)
	}
	arg.Const = arg.Const || arg.Space == "constant"
	arg.Type = strings.Join(kept[:n], " ")
	s.args = append(s.args, arg)
	return nil
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
