package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is the longest run of characters that combine with what is before them (marks, Korean vowels and finals) that
// nfc leaves to x/text. That package puts a COMBINING GRAPHEME JOINER after 30 of them (stream-safe text, UAX 15 section
// 13), which changes the tokens; one decomposes into two at most, and a character before them may bring three of its own.
const maxMarks = 12

// nfc returns the Unicode normal form C of s, by Unicode 15.0 as Go 1.26 has it. Bytes that are no UTF-8 stay as they are.
// The library that Hugging Face tokenizers 0.23 uses is of Unicode 9: it does not order the 108 combining marks that came
// since (make_cases.py lists them), which only shows where such a mark stands out of order.
func nfc(s string) string {
	marks := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			marks = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if p.BoundaryBefore() {
			marks = 0
		} else if marks++; marks > maxMarks {
			return composeLong(s)
		}
		i += max(1, p.Size())
	}
	return norm.NFC.String(s) // s itself if nothing changes
}

// mark is a character with its canonical combining class, and whether it may combine with what is before it.
type mark struct {
	text string
	ccc  uint8
	back bool
}

// composeLong is nfc for text with long runs of combining characters, by the definition in UAX 15: decompose, order the marks of each
// run by class, compose. It takes O(n log n) and some allocations, where x/text's way is quicker for ordinary text.
func composeLong(s string) string {
	out := make([]byte, 0, len(s))
	var run []mark // a starter and the marks after it
	flush := func() {
		out = appendComposed(out, run)
		run = run[:0]
	}
	for i := 0; i < len(s); {
		p := norm.NFD.PropertiesString(s[i:])
		n := max(1, p.Size())
		parts := s[i : i+n]
		if d := p.Decomposition(); d != nil {
			parts = string(d)
		}
		i += n
		for j := 0; j < len(parts); {
			q := norm.NFC.PropertiesString(parts[j:])
			m := max(1, q.Size())
			next := mark{parts[j : j+m], q.CCC(), !q.BoundaryBefore()}
			if next.ccc == 0 && !next.back {
				flush()
			}
			run = append(run, next)
			j += m
		}
	}
	flush()
	return string(out)
}

// appendComposed appends the composition of run: starters that may combine backwards, marks, and at most its first
// character does neither.
func appendComposed(out []byte, run []mark) []byte {
	for start := 0; start < len(run); { // order the marks between two starters
		end := start + 1
		for end < len(run) && run[end].ccc != 0 {
			end++
		}
		marks := run[start:end]
		if marks[0].ccc == 0 {
			marks = marks[1:]
		}
		slices.SortStableFunc(marks, func(a, b mark) int { return int(a.ccc) - int(b.ccc) })
		start = end
	}
	starter := -1 // the last one, in run
	kept := run[:0]
	for _, m := range run {
		if starter >= 0 && m.back {
			last := kept[len(kept)-1]
			adjacent := len(kept)-1 == starter
			if adjacent || (last.ccc != 0 && last.ccc < m.ccc) {
				if one, ok := compose(kept[starter].text, m.text); ok {
					kept[starter].text = one
					continue
				}
			}
		}
		if m.ccc == 0 {
			starter = len(kept)
		}
		kept = append(kept, m)
	}
	for _, m := range kept {
		out = append(out, m.text...)
	}
	return out
}

// compose returns the one character that a and b make in NFC, if there is one.
func compose(a, b string) (string, bool) {
	one := norm.NFC.String(a + b)
	return one, utf8.RuneCountInString(one) == 1
}
