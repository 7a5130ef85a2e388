package fake

import (
	"strings"
	"unicode/utf8"

	"lilypad/protocol"
)

// Ids of the added tokens. Ids below 256 are the bytes.
const (
	firstAdded = 256

	ImStart   int32 = 256
	ImEnd     int32 = 257
	EndOfText int32 = 258
	Think     int32 = 259
	EndThink  int32 = 260
)

var added = []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>"}

// Tokenize turns text into ids: bytes, and added tokens outside literal spans.
func Tokenize(spans ...protocol.Span) []int32 {
	var ids []int32
	for _, s := range spans {
	text:
		for text := s.Text; text != ""; {
			for i, a := range added {
				if !s.Literal && strings.HasPrefix(text, a) {
					ids, text = append(ids, int32(firstAdded+i)), text[len(a):]
					continue text
				}
			}
			ids, text = append(ids, int32(text[0])), text[1:]
		}
	}
	return ids
}

// Text is the text of ids, with U+FFFD for bytes that are no UTF-8.
func Text(ids []int32) string {
	var d decoder
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(d.next(id))
	}
	return b.String() + d.rest()
}

// one is the text of a single token, its invalid bytes as U+FFFD.
func one(id int32) string { return Text([]int32{id}) }

// decoder gives text as soon as it is complete UTF-8 and holds back the start of a character until then.
type decoder struct{ held []byte }

// next returns the text that id completes.
func (d *decoder) next(id int32) string {
	if id >= firstAdded {
		return d.rest() + added[int(id)-firstAdded]
	}
	d.held = append(d.held, byte(id))
	var out strings.Builder
	for len(d.held) > 0 && utf8.FullRune(d.held) {
		r, n := utf8.DecodeRune(d.held)
		out.WriteRune(r)
		d.held = d.held[n:]
	}
	return out.String()
}

// rest gives up on what is held back.
func (d *decoder) rest() string {
	s := strings.Repeat("\uFFFD", min(len(d.held), 1))
	d.held = nil
	return s
}
