package msl

type declKind uint8

const (
	function declKind = iota + 1
	variable
	record
	alias         // using and typedef
	instantiation // template void f<int>(int);
)

// decl is a declaration at file scope, in a namespace or in a record. Ranges are token indices, the end excluded.
type decl struct {
	kind       declKind
	start, end int
	template   [2]int // parameters of template<...>, without the brackets
	templated  bool
	name       int    // index of the name, -1 for none
	params     [2]int // of a function, without the brackets
	body       [2]int // of a function or record, without the braces; empty for a prototype
	value      [2]int // initialiser of a variable
	defined    bool
	parent     string // the record that it is a member of
	namespace  string
}

// parser finds declarations. It follows the shape of C++, not its grammar: what it doesn't know it passes over.
type parser struct {
	u         *Unit
	namespace string
	parent    string
}

func (u *Unit) declarations() error {
	p := &parser{u: u}
	return p.list(0, len(u.tokens))
}

func (u *Unit) is(i int, s string) bool { return u.tokens.is(i, s) }
func (u *Unit) isWord(i int) bool       { return u.tokens.isWord(i) }

// list reads the declarations of tokens [i, end).
func (p *parser) list(i, end int) error {
	for i < end {
		next, err := p.one(i, end)
		if err != nil {
			return err
		}
		i = max(next, i+1)
	}
	return nil
}

// one reads the declaration at i and returns where the next one starts.
func (p *parser) one(i, end int) (int, error) {
	u := p.u
	d := decl{start: i, name: -1, parent: p.parent, namespace: p.namespace}
	switch u.tokens[i].text {
	case ";":
		return i + 1, nil
	case "namespace":
		return p.inNamespace(i, end)
	case "public", "private", "protected":
		if u.is(i+1, ":") {
			return i + 2, nil
		}
	case "using", "typedef", "static_assert", "friend":
		return p.statement(d, end), nil
	}
	for u.is(i, "template") && i < end {
		if !u.is(i+1, "<") {
			d.kind = instantiation
			i++
			break
		}
		close := u.skipAngles(i+1, end)
		if close < 0 {
			return 0, refuse(u.tokens[i].line, "template parameters that are not closed")
		}
		d.template, d.templated = [2]int{i + 2, close - 1}, true
		u.templateTypes(i+2, close-1)
		i = close
	}
	return p.declaration(d, i, end)
}

// templateTypes notes the names of type parameters.
func (u *Unit) templateTypes(from, to int) {
	for i := from; i+1 < to; i++ {
		if (u.is(i, "typename") || u.is(i, "class")) && u.isWord(i+1) {
			u.types[u.tokens[i+1].text] = true
		}
	}
}

// statement passes over a declaration that ends with a semicolon, and notes the name of an alias.
func (p *parser) statement(d decl, end int) int {
	u := p.u
	semicolon := u.find(d.start, end, ";")
	d.end = semicolon
	switch u.tokens[d.start].text {
	case "using":
		if u.is(d.start+2, "=") {
			d.kind, d.name = alias, d.start+1
		}
	case "typedef":
		d.kind = alias
		if u.isWord(semicolon - 1) {
			d.name = semicolon - 1
		}
	}
	if d.kind == alias {
		if d.name >= 0 {
			u.types[u.tokens[d.name].text] = true
		}
		u.decls = append(u.decls, d)
	}
	return semicolon + 1
}

func (u *Unit) find(i, end int, s string) int { return u.tokens.find(i, end, s) }
func (u *Unit) skipAngles(i, end int) int     { return u.tokens.skipAngles(i, end) }

// declaration reads a record, function or variable whose first token after template<...> is i.
func (p *parser) declaration(d decl, i, end int) (int, error) {
	u := p.u
	for ; i < end; i++ {
		t := u.tokens[i]
		switch t.text {
		case "struct", "class", "union", "enum":
			if next, ok, err := p.record(d, i, end); ok {
				return next, err
			}
		case "[":
			i = t.match
		case "<":
			if close := u.skipAngles(i, end); close > 0 && u.isWord(i-1) {
				i = close - 1
			}
		case "operator":
			for i+1 < end && (!u.is(i+1, "(") || u.is(i, "operator") && u.is(i+1, "(") && u.is(i+2, ")")) {
				i++
				if u.is(i, "(") {
					i++
				}
			}
		case "decltype", "alignas", "__attribute__":
			if u.is(i+1, "(") {
				i = u.tokens[i+1].match
			}
		case "(":
			if u.isWord(i-1) || u.is(i-1, ">") || d.isOperator(u, i) {
				return p.function(d, i, end)
			}
			i = t.match
		case ";", "=", "{", ",", ":":
			return p.variable(d, i, end)
		}
	}
	return end, nil
}

func (d *decl) isOperator(u *Unit, i int) bool {
	for ; i >= d.start; i-- {
		if u.is(i, "operator") {
			return true
		}
	}
	return false
}

// function reads from the ( of the parameters at i.
func (p *parser) function(d decl, i, end int) (int, error) {
	u := p.u
	if d.kind == 0 {
		d.kind = function
	}
	d.name = u.beforeAngles(i-1, d.start)
	close := u.tokens[i].match
	d.params = [2]int{i + 1, close}
	j := close + 1
	for ; j < end; j++ {
		switch u.tokens[j].text {
		case "{":
			d.body, d.defined, d.end = [2]int{j + 1, u.tokens[j].match}, true, u.tokens[j].match+1
			u.decls = append(u.decls, d)
			return d.end, nil
		case ";", "=", ",":
			d.end = u.find(j, end, ";")
			u.decls = append(u.decls, d)
			return d.end + 1, nil
		case ":": // initialisers of members: name(...) or name{...}
			for j++; j+1 < end && u.isWord(j) && u.tokens[j+1].match > j; j++ {
				j = u.tokens[j+1].match + 1
				if !u.is(j, ",") {
					break
				}
			}
			j--
		case "(", "[":
			j = u.tokens[j].match
		}
	}
	return end, nil
}

// variable reads from the token at i that ends the name of a variable.
func (p *parser) variable(d decl, i, end int) (int, error) {
	u := p.u
	if i == d.start {
		return i + 1, nil
	}
	if d.kind == 0 {
		d.kind = variable
	}
	d.name = d.nameBefore(u, u.beforeAngles(i-1, d.start)+1)
	d.end = u.find(i, end, ";")
	if !u.is(i, ";") {
		d.value = [2]int{i, d.end}
	}
	u.decls = append(u.decls, d)
	return d.end + 1, nil
}

// beforeAngles returns i, or the index before the < that belongs to the > at i, as in f<int>.
func (u *Unit) beforeAngles(i, start int) int {
	if u.is(i, ">") {
		if open := u.tokens.openAngle(i); open > start {
			return open - 1
		}
	}
	return i
}

// nameBefore returns the last identifier before i that is neither in brackets nor in an attribute.
func (d *decl) nameBefore(u *Unit, i int) int {
	for i--; i >= d.start; i-- {
		if u.is(i, "]") || u.is(i, ")") {
			i = u.tokens[i].match
			continue
		}
		if u.isWord(i) {
			return i
		}
	}
	return -1
}
