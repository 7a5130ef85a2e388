package msl

import "strings"

// vectorType reports whether a word names a vector type.
func vectorType(t string) bool {
	t = strings.TrimPrefix(t, "packed_")
	return len(t) > 1 && strings.IndexByte("234", t[len(t)-1]) >= 0 && scalars[t[:len(t)-1]]
}

// refuseCommaVectors refuses (float4)(a, b, c, d): in MSL a cast of the comma operator's result, which is d alone.
func refuseCommaVectors(s stream) error {
	for i := range s {
		if !s.is(i, "(") || !s.isWord(i+1) || !vectorType(s[i+1].text) || !s.is(i+2, ")") || !s.is(i+3, "(") || s[i+3].match < 0 {
			continue
		}
		if close := s[i+3].match; s.find(i+4, close, ",") < close {
			return refuse(s[i].line, "(%s)(a, b, ...) takes the last value only, by the comma operator: write %s(a, b, ...)", s[i+1].text, s[i+1].text)
		}
	}
	return nil
}

// refuseSwizzles refuses OpenCL's names of vector components.
func (u *Unit) refuseSwizzles(s stream) error {
	for i := range s {
		if !s.is(i, ".") || !s.isWord(i+1) || s.is(i+2, "(") {
			continue
		}
		name := s[i+1].text
		hex := (name[0] == 's' || name[0] == 'S') && len(name) > 1 && strings.Trim(name[1:], "0123456789abcdefABCDEF") == ""
		half := name == "lo" || name == "hi" || name == "even" || name == "odd"
		if (hex || half) && !u.isField(name) {
			return refuse(s[i].line, ".%s is OpenCL: components are .xyzw or .rgba", name)
		}
	}
	return nil
}

// isField reports whether some record has a member of that name.
func (u *Unit) isField(name string) bool {
	for i := range u.decls {
		d := &u.decls[i]
		if d.kind != variable || d.parent == "" {
			continue
		}
		if stream(u.tokens[d.start:d.end]).has(name) {
			return true
		}
	}
	return false
}

// refuseVectorConditions refuses what OpenCL takes and MSL doesn't, comparisons of vectors as integers and as conditions.
// Types are not known here, so it sees the vectors that the function declares by name.
func (u *Unit) refuseVectorConditions(d *decl) error {
	if d.kind != function || !d.defined {
		return nil
	}
	s := u.tokens
	names := s.vectors(d.params[0], d.body[1])
	for i := d.body[0]; i < d.body[1]; i++ {
		switch {
		case s.isWord(i) && vectorType(s[i].text) && !strings.HasPrefix(s[i].text, "bool") && s.isWord(i+1) && s.is(i+2, "="):
			if end := min(s.find(i, d.body[1], ";"), s.find(i, d.body[1], "?")); s.compares(i+3, end, names) {
				return refuse(s[i].line, "%s %s: comparing vectors gives bool%s, of 0 and 1, not 0 and -1", s[i].text, s[i+1].text, s[i].text[len(s[i].text)-1:])
			}
		case s.is(i, "?"):
			if from, to := s.condition(i); s.compares(from, to, names) {
				return refuse(s[i].line, "a vector as the condition of ?: write select(if false, if true, condition) for each component")
			}
		}
	}
	return nil
}

// vectors returns the names that tokens [from, to) declare as vectors.
func (s stream) vectors(from, to int) map[string]bool {
	names := map[string]bool{}
	for i := from; i < to; i++ {
		if !s.isWord(i) || !vectorType(s[i].text) || !s.isWord(i+1) || s.is(i+2, "[") && !s.is(i+3, "[") {
			continue
		}
		names[s[i+1].text] = true
		if i > 0 && s.in(i-1, "(", ",") { // a parameter
			continue
		}
		end := s.find(i, to, ";")
		for j := s.find(i, end, ","); j < end; j = s.find(j+1, end, ",") {
			if s.isWord(j+1) && !s.is(j+2, "[") {
				names[s[j+1].text] = true
			}
		}
	}
	return names
}

// condition returns the range of the condition of the ? at i, without its parentheses.
func (s stream) condition(i int) (from, to int) {
	to = i
	for from = i; from > 0; from-- {
		if s.in(from-1, ")", "]") && s[from-1].match >= 0 {
			from = s[from-1].match + 1
			continue
		}
		if s.in(from-1, "=", "(", "[", "{", "}", ";", ",", "return", "?", ":", "+=", "-=", "*=", "/=") {
			break
		}
	}
	for s.is(from, "(") && s[from].match == to-1 {
		from, to = from+1, to-1
	}
	return from, to
}

// compares reports whether tokens [from, to), outside brackets, compare a whole vector.
func (s stream) compares(from, to int, names map[string]bool) bool {
	for i := from; i < to; i++ {
		if s[i].match > i {
			i = s[i].match
			continue
		}
		if !s.in(i, "<", ">", "<=", ">=", "==", "!=") {
			continue
		}
		left := s.isWord(i-1) && names[s[i-1].text] && !s.in(i-2, ".", "->")
		right := s.isWord(i+1) && (names[s[i+1].text] && !s.in(i+2, ".", "[") || vectorType(s[i+1].text) && s.is(i+2, "("))
		if left || right {
			return true
		}
	}
	return false
}
