package msl

// levels is how many pointers and references a declarator has, and how many address spaces it names.
type levels struct{ pointers, spaces int }

func isSpace(t string) bool {
	return t == "device" || t == "constant" || t == "threadgroup" || t == "thread"
}

// level counts tokens [from, to), a type with or without a name. Template arguments are types of their own, and pointers
// to functions have no space. An array is a pointer where it is a parameter.
func (s stream) level(from, to int, parameter bool) levels {
	var l levels
	for i := from; i < to; i++ {
		switch t := s[i].text; {
		case isSpace(t):
			l.spaces++
		case t == "*" || t == "&" || t == "&&":
			l.pointers++
		case t == "<":
			if close := s.skipAngles(i, to); close > 0 {
				i = close - 1
			}
		case t == "[" && parameter && !s.is(i+1, "["):
			l.pointers++
			return l
		case t == "(" && s.in(i+1, "*", "&"):
			if close := s[i].match; close > 0 && s.is(close+1, "(") {
				return levels{}
			}
			l.pointers++
			return l
		case t == "(" || t == "[":
			i = max(i, s[i].match)
		case t == "=" || t == "operator":
			return l
		}
	}
	return l
}

// named refuses a type with more pointers and references than address spaces.
func (s stream) named(from, to int, parameter bool, what string) error {
	if from >= to {
		return nil
	}
	if l := s.level(from, to, parameter); l.pointers > l.spaces {
		return refuse(s[from].line, "%s: %d pointers or references and %d address spaces: write device, constant, threadgroup or thread for each", what, l.pointers, l.spaces)
	}
	return nil
}

// refusePointers refuses pointers and references that don't name the space that they point into.
func (u *Unit) refusePointers(d *decl) error {
	s := u.tokens
	what := "a type"
	if d.name >= 0 {
		what = s[d.name].text
	}
	switch d.kind {
	case alias:
		from := d.start + 1
		if d.name == d.start+1 {
			from += 2
		}
		return s.named(from, d.end, false, what)
	case variable:
		to := d.end
		if d.value[1] > d.value[0] {
			to = d.value[0]
		}
		return s.named(d.start, to, false, what)
	case function, instantiation:
		if err := s.named(d.start, d.name, false, "the result of "+what); err != nil {
			return err
		}
		for _, p := range u.parameters(d.params[0], d.params[1]) {
			if err := s.named(p[0], p[1], true, "a parameter of "+what); err != nil {
				return err
			}
		}
		return s.locals(d.body[0], d.body[1])
	}
	return nil
}

// notTypes are words that start statements which declare nothing.
var notTypes = map[string]bool{"return": true, "if": true, "for": true, "while": true, "do": true, "switch": true, "case": true, "break": true,
	"continue": true, "default": true, "else": true, "sizeof": true, "using": true, "typedef": true}

// locals checks the declarations among tokens [from, to) of a function's body.
func (s stream) locals(from, to int) error {
	for i := from; i < to; i++ {
		if !s.startsStatement(i) || !s.isWord(i) {
			continue
		}
		if s.in(i, "using", "typedef") {
			end := s.find(i, to, ";")
			start := i + 1
			if s.is(i+2, "=") {
				start = i + 3
			}
			if err := s.named(start, end, false, "a local type"); err != nil {
				return err
			}
			continue
		}
		name := s.declares(i, to)
		if name < 0 {
			continue
		}
		if err := s.named(i, name, false, "local "+s[name].text); err != nil {
			return err
		}
	}
	return nil
}

// declares returns the index of the name that the statement at i declares as a pointer or reference, -1 if it doesn't.
func (s stream) declares(i, to int) int {
	words, marks, auto := 0, 0, false
	for ; i < to; i++ {
		switch t := s[i]; {
		case t.kind == word && notTypes[t.text]:
			return -1
		case t.kind == word && marks > 0 && !isSpace(t.text) && t.text != "const" && t.text != "volatile" && t.text != "__restrict":
			if s.in(i+1, "=", ";", ",", "[", ":", "{") {
				return i
			}
			return -1
		case t.kind == word:
			words++
			auto = auto || t.text == "auto"
		case t.text == "::":
		case t.text == "<" && marks == 0 && words > 0:
			close := s.skipAngles(i, to)
			if close < 0 {
				return -1
			}
			i = close - 1
		case words > 0 && (t.text == "*" || t.text == "&" || t.text == "&&" && auto):
			marks++
		default:
			return -1
		}
	}
	return -1
}

// refuseCasts refuses types without a space where they stand alone: (float*)x, f<float*>(x). A * or & before ) or > is
// never part of an expression.
func refuseCasts(s stream) error {
	for i := range s {
		if !s.in(i, "*", "&") || !s.in(i+1, ")", ">") {
			continue
		}
		from := i
		for from > 0 {
			if s.is(from-1, ">") {
				open := s.openAngle(from - 1)
				if open < 0 {
					break
				}
				from = open
				continue
			}
			if !s.isWord(from-1) && !s.in(from-1, "*", "&", "::") {
				break
			}
			from--
		}
		if !s.in(from-1, "(", "<", ",") || !s.isWord(from) {
			continue
		}
		if err := s.named(from, i+1, false, "the type "+join(s[from:i+1])); err != nil {
			return err
		}
	}
	return nil
}
