package msl

// record reads struct S {...}; ok is false where struct only names the type of something else.
func (p *parser) record(d decl, i, end int) (next int, ok bool, err error) {
	u := p.u
	enum := u.is(i, "enum")
	j := i + 1
	for ; j < end; j++ {
		if u.is(j, "[") {
			j = u.tokens[j].match
			continue
		}
		if u.is(j, "(") && u.is(j-1, "alignas") {
			j = u.tokens[j].match
			continue
		}
		if !u.isWord(j) {
			break
		}
		if !u.is(j, "class") && !u.is(j, "struct") && !u.is(j, "alignas") {
			d.name = j
		}
	}
	if u.is(j, "<") { // a specialisation
		if close := u.skipAngles(j, end); close > 0 {
			j = close
		}
	}
	if d.name >= 0 {
		u.types[u.tokens[d.name].text] = true
	}
	if u.is(j, ":") && !enum {
		return 0, true, refuse(u.tokens[j].line, "base classes don't exist in MSL: make the base a member")
	}
	if u.is(j, ":") {
		j = u.find(j, end, "{")
	}
	if !u.is(j, "{") || j >= end {
		return 0, false, nil
	}
	close := u.tokens[j].match
	d.kind, d.defined, d.body = record, true, [2]int{j + 1, close}
	d.end = u.find(close, end, ";")
	u.decls = append(u.decls, d)
	if !enum {
		inner := *p
		inner.parent = "a record"
		if d.name >= 0 {
			inner.parent = u.tokens[d.name].text
		}
		err = inner.list(j+1, close)
	}
	return d.end + 1, true, err
}

// inNamespace reads what a namespace holds.
func (p *parser) inNamespace(i, end int) (int, error) {
	u := p.u
	name := ""
	for i++; i < end && !u.is(i, "{") && !u.is(i, ";") && !u.is(i, "="); i++ {
		name += u.tokens[i].text
	}
	if !u.is(i, "{") {
		return u.find(i, end, ";") + 1, nil
	}
	inner := *p
	inner.namespace += name + "::"
	return u.tokens[i].match + 1, inner.list(i+1, u.tokens[i].match)
}
