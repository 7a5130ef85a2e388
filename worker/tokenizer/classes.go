package tokenizer

import (
	"sync"
	"unicode"
)

// class is what the pre-tokenizer's regular expression can tell of a character.
type class uint8

const (
	other  class = iota
	letter       // \p{L}, and \p{M} where the expression says so
	number       // \p{N}
	space        // \s, Unicode's White_Space
)

// classTable gives the class of every code point.
type classTable [unicode.MaxRune + 1]class

// qwen35Classes counts combining marks among the letters, qwen2Classes among the others.
var (
	qwen35Classes = sync.OnceValue(func() *classTable {
		t := newClasses()
		t.fill(unicode.M, letter)
		t.fill(marksOf16, letter)
		return t
	})
	qwen2Classes = sync.OnceValue(newClasses)
)

func newClasses() *classTable {
	t := new(classTable)
	t.fill(unicode.L, letter)
	t.fill(lettersOf16, letter)
	t.fill(unicode.N, number)
	t.fill(numbersOf16, number)
	t.fill(unicode.White_Space, space)
	return t
}

func (t *classTable) fill(of *unicode.RangeTable, c class) {
	for _, r := range of.R16 {
		for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
			t[i] = c
		}
	}
	for _, r := range of.R32 {
		for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
			t[i] = c
		}
	}
}

// What Unicode 15.1 and 16.0 added to Go 1.26's tables (15.0) in the general categories L, N and M. Hugging Face
// tokenizers 0.23 (Oniguruma) classifies by 16.0; compared with it over all code points.
var (
	lettersOf16 = ranges(
		0x1C89, 0x1C8A, 0xA7CB, 0xA7CD, 0xA7DA, 0xA7DC, 0x105C0, 0x105F3, 0x10D4A, 0x10D65, 0x10D6F, 0x10D85,
		0x10EC2, 0x10EC4, 0x11380, 0x11389, 0x1138B, 0x1138B, 0x1138E, 0x1138E, 0x11390, 0x113B5, 0x113B7, 0x113B7,
		0x113D1, 0x113D1, 0x113D3, 0x113D3, 0x11BC0, 0x11BE0, 0x13460, 0x143FA, 0x16100, 0x1611D, 0x16D40, 0x16D6C,
		0x18CFF, 0x18CFF, 0x1E5D0, 0x1E5ED, 0x1E5F0, 0x1E5F0, 0x2EBF0, 0x2EE5D)
	numbersOf16 = ranges(
		0x10D40, 0x10D49, 0x116D0, 0x116E3, 0x11BF0, 0x11BF9, 0x16130, 0x16139, 0x16D70, 0x16D79, 0x1CCF0, 0x1CCF9,
		0x1E5F1, 0x1E5FA)
	marksOf16 = ranges(
		0x0897, 0x0897, 0x10D69, 0x10D6D, 0x10EFC, 0x10EFC, 0x113B8, 0x113C0, 0x113C2, 0x113C2, 0x113C5, 0x113C5,
		0x113C7, 0x113CA, 0x113CC, 0x113D0, 0x113D2, 0x113D2, 0x113E1, 0x113E2, 0x11F5A, 0x11F5A, 0x1611E, 0x1612F,
		0x1E5EE, 0x1E5EF)
)

// ranges makes a table of pairs of first and last code points.
func ranges(bounds ...uint32) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for i := 0; i < len(bounds); i += 2 {
		t.R32 = append(t.R32, unicode.Range32{Lo: bounds[i], Hi: bounds[i+1], Stride: 1})
	}
	return t
}
