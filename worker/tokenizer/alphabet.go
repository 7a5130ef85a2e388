package tokenizer

import "strings"

// spelling is GPT-2's byte-level alphabet: the character that stands for each byte in the strings of a vocabulary.
// Printable Latin-1 bytes stand for themselves, the others are U+0100 and up in order of their value.
var spelling = makeSpelling()

// spelled is the inverse of spelling: the byte that a character stands for, or -1.
var spelled = invert(spelling)

// alphabetEnd is above every character of the alphabet: 68 bytes are spelled U+0100 and up.
const alphabetEnd = 0x100 + 68

func makeSpelling() (chars [256]rune) {
	next := rune(0x100)
	for b := range chars {
		switch {
		case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
			chars[b] = rune(b)
		default:
			chars[b] = next
			next++
		}
	}
	return chars
}

func invert(chars [256]rune) (inverse [alphabetEnd]int16) {
	for i := range inverse {
		inverse[i] = -1
	}
	for b, c := range chars {
		inverse[c] = int16(b)
	}
	return inverse
}

// unspell appends the bytes that token spells. A token with a character outside the alphabet stands for its own UTF-8,
// as in Hugging Face's decoder; no text encodes to it.
func unspell(dst *strings.Builder, token string) {
	for _, c := range token {
		if c >= alphabetEnd || spelled[c] < 0 {
			dst.WriteString(token)
			return
		}
	}
	for _, c := range token {
		dst.WriteByte(byte(spelled[c]))
	}
}
