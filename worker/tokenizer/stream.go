package tokenizer

import "unicode/utf8"

// replacement stands for bytes that are no UTF-8.
const replacement = "\uFFFD"

// Stream turns ids into text one by one. Text comes out as soon as it is certain: only the bytes of one unfinished
// character, at most three, are held back. The texts of all Push calls and of Flush make up Decode of all ids.
type Stream struct {
	t    *Tokenizer
	held []byte // bytes not yet put out; between calls an incomplete but so far valid UTF-8 sequence
	text []byte // scratch
}

// NewStream returns a Stream that has seen nothing.
func NewStream(t *Tokenizer) *Stream { return &Stream{t: t} }

// Push returns the text that id completes, which may be empty.
func (s *Stream) Push(id int32) string {
	s.feed(id)
	return string(s.text)
}

// Prime makes the stream as if ids had been pushed and their text taken. A worker that goes on with a generation of
// another one primes its stream with the tokens already emitted.
func (s *Stream) Prime(ids []int32) {
	for _, id := range ids {
		s.feed(id)
	}
}

// Flush returns U+FFFD if a character is unfinished, else nothing, and leaves the stream as new.
func (s *Stream) Flush() string {
	if len(s.held) == 0 {
		return ""
	}
	s.held = s.held[:0]
	return replacement
}

// feed leaves in s.text what id completes.
func (s *Stream) feed(id int32) {
	s.held = s.t.AppendToken(s.held, id)
	var used int
	s.text, used = appendText(s.text[:0], s.held)
	s.held = append(s.held[:0], s.held[used:]...)
}

// appendText appends to dst the text of raw, with one U+FFFD for each maximal subpart of an ill-formed sequence (Unicode
// chapter 3.9; Rust's from_utf8_lossy, which Hugging Face's decoder calls, and the WHATWG decoder do the same). It leaves
// out an incomplete sequence at the end of raw that more bytes could complete, and returns how many bytes it used.
func appendText(dst, raw []byte) (text []byte, used int) {
	for used < len(raw) {
		rest := raw[used:]
		r, n := utf8.DecodeRune(rest)
		switch {
		case r != utf8.RuneError || n > 1:
			dst = append(dst, rest[:n]...)
		case !utf8.FullRune(rest):
			return dst, used
		default:
			n = subpart(rest)
			dst = append(dst, replacement...)
		}
		used += n
	}
	return dst, used
}

// subpart returns the length of the maximal subpart at the start of b, which does not start with a character: the longest
// prefix that could begin one, or else one byte.
func subpart(b []byte) int {
	for n := min(3, len(b)); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}
