package tokenizer

import (
	"strings"

	"lilypad/protocol"
)

// Encode returns the ids of the spans' texts put together. Added tokens are matched first, leftmost then longest, only
// where no byte of the match is in a literal span; the split into spans changes nothing else, a piece of ordinary text
// goes on across spans. No token is added at either end. Bytes that are no UTF-8 (Hugging Face never sees any) are kept:
// each is a character of its own that is no letter, number or space, so the ids still spell the same bytes.
func (t *Tokenizer) Encode(spans []protocol.Span) []int32 {
	text, open := join(spans)
	ids := make([]int32, 0, len(text)/4+1)
	done := 0 // text[:done] is encoded
	for _, r := range open {
		for at := r.start; at < r.end; {
			start, end, id := t.matcher.find(text[at:r.end])
			if id < 0 {
				break
			}
			ids = t.appendOrdinary(ids, text[done:at+start])
			ids = append(ids, id)
			done, at = at+end, at+end
		}
	}
	return t.appendOrdinary(ids, text[done:])
}

// textRange is text[start:end].
type textRange struct{ start, end int }

// join puts the texts together and returns the ranges outside literal spans, neighbours united.
func join(spans []protocol.Span) (text string, open []textRange) {
	var all strings.Builder
	for _, s := range spans {
		start := all.Len()
		all.WriteString(s.Text)
		switch last := len(open) - 1; {
		case s.Literal || s.Text == "":
		case last >= 0 && open[last].end == start:
			open[last].end = all.Len()
		default:
			open = append(open, textRange{start, all.Len()})
		}
	}
	return all.String(), open
}

// appendOrdinary appends the ids of text without added tokens.
func (t *Tokenizer) appendOrdinary(ids []int32, text string) []int32 {
	if t.nfc {
		text = nfc(text)
	}
	for text != "" {
		n := t.classes.piece(text)
		ids = t.appendPiece(ids, text[:n])
		text = text[n:]
	}
	return ids
}

// appendPiece appends the ids of one piece that the pre-tokenizer cut out.
func (t *Tokenizer) appendPiece(ids []int32, piece string) []int32 {
	switch {
	case len(piece) == 1:
		return append(ids, t.bytes[piece[0]])
	case len(piece) > maxShort:
		return t.mergeLong(ids, piece)
	}
	word, slot := t.words.get(piece)
	if word == nil {
		word = &cachedWord{text: strings.Clone(piece), ids: t.mergeShort(piece)}
		slot.Store(word)
	}
	return append(ids, word.ids...)
}
