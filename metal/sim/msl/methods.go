package msl

// object is a variable of a record's type, or a pointer or reference to one.
type object struct{ record, space string }

// refuseMethods refuses calls of methods that serve thread objects only, on objects elsewhere. Such a method has no
// address space after its parameters. Only objects that the function declares by name are seen.
func (u *Unit) refuseMethods(d *decl) error {
	if d.kind != function || !d.defined {
		return nil
	}
	s := u.tokens
	objects := u.objects(d.params[0], d.body[1])
	for i := d.body[0]; i < d.body[1]; i++ {
		o, ok := objects[s[i].text]
		if !ok || s.in(i-1, ".", "->", "::") {
			continue
		}
		j := i + 1
		for s.is(j, "[") {
			j = s[j].match + 1
		}
		if !s.in(j, ".", "->") || !s.isWord(j+1) || !s.is(j+2, "(") {
			continue
		}
		if known, serves := u.method(o, s[j+1].text); known && !serves {
			return refuse(s[i].line, "%s is in %s memory, and %s::%s serves thread objects only: add an overload with %s after its parameters", s[i].text, o.space, o.record, s[j+1].text, o.space)
		}
	}
	return nil
}

// objects returns what tokens [from, to) declare as space S name, space S* name and the like.
func (u *Unit) objects(from, to int) map[string]object {
	s := u.tokens
	out := map[string]object{}
	for i := from; i < to; i++ {
		if !s.in(i, "device", "constant", "threadgroup") {
			continue
		}
		j := i + 1
		if s.is(j, "const") {
			j++
		}
		record := j
		for s.in(j+1, "*", "&", "const") {
			j++
		}
		if s.isWord(record) && s.isWord(j+1) && u.types[s[record].text] {
			out[s[j+1].text] = object{s[record].text, s[i].text}
		}
	}
	return out
}

// method says whether the record of o has a method of that name, and whether one serves objects where o is.
func (u *Unit) method(o object, name string) (known, serves bool) {
	for i := range u.decls {
		d := &u.decls[i]
		if d.kind != function || d.parent != o.record || u.tokens[d.name].text != name {
			continue
		}
		known = true
		to := d.end
		if d.defined {
			to = d.body[0]
		}
		qualifiers := stream(u.tokens[d.params[1]:to])
		serves = serves || qualifiers.has(o.space) || stream(u.tokens[d.start:d.name]).has("static")
	}
	return known, serves
}
