package msl

// stream is a sequence of tokens: the whole source, or the body of a macro. Indices outside are no tokens.
type stream []token

func (s stream) is(i int, t string) bool { return i >= 0 && i < len(s) && s[i].text == t }

func (s stream) isWord(i int) bool { return i >= 0 && i < len(s) && s[i].kind == word }

// in reports whether token i is one of the texts.
func (s stream) in(i int, texts ...string) bool {
	for _, t := range texts {
		if s.is(i, t) {
			return true
		}
	}
	return false
}

// has reports whether a token is t.
func (s stream) has(t string) bool {
	for i := range s {
		if s[i].text == t {
			return true
		}
	}
	return false
}

// find returns the index of the next token t in [i, end) outside brackets that open after i, or end.
func (s stream) find(i, end int, t string) int {
	for ; i < end; i++ {
		if s[i].text == t {
			return i
		}
		if m := s[i].match; m > i {
			i = m
		}
	}
	return end
}

// skipAngles returns the index after the > that closes the < at i, -1 if there is none before end: then < compares.
func (s stream) skipAngles(i, end int) int {
	depth := 0
	for ; i < end; i++ {
		switch s[i].text {
		case "<":
			depth++
		case ">":
			if depth--; depth == 0 {
				return i + 1
			}
		case "(", "[", "{":
			i = max(i, s[i].match)
		case ";", ")", "]", "}", "&&", "||":
			return -1
		}
	}
	return -1
}

// openAngle returns the index of the < that belongs to the > at i, -1 if there is none.
func (s stream) openAngle(i int) int {
	depth := 0
	for ; i >= 0; i-- {
		switch s[i].text {
		case ">":
			depth++
		case "<":
			if depth--; depth == 0 {
				return i
			}
		case ")", "]":
			if s[i].match < 0 {
				return -1
			}
			i = s[i].match
		case ";", "{", "}", "(", "[":
			return -1
		}
	}
	return -1
}

// startsStatement reports whether token i is the first of a statement, or of the head of a for.
func (s stream) startsStatement(i int) bool {
	return i == 0 || s.in(i-1, ";", "{", "}", "else", ":", "do") || s.is(i-1, "(") && s.in(i-2, "for", "if", "while")
}
