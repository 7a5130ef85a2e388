package tokenizer

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// composing draws text that NFC changes, with runs of marks short enough for x/text to leave alone.
func composing() *rapid.Generator[string] {
	parts := []string{
		"a", "e", "o", "A", "é", "ế", "ǖ", "\u1e9b", "가", "각", "\u1100", "\u1161", "\u11a8", "\u0301", "\u0302", "\u0307", "\u0308",
		"\u0323", "\u0327", "\u031b", "\u0334", "\u0338", "\u0345", "\u0344", "\u0340", "\u0958", "\u0915", "\u093c", "\u09c7",
		"\u09be", "\u0f71", "\u0f72", "\u0f73", "\u0f81", "\u304b", "\u3099", "\u2126", "\u212a", "\u037e", "\ufb1d", "\ufb2c",
		"\U0001d15e", "\U0001d165", "\U0002f800", "\U00011099", "\U000110ba", "\u034f", "\u200d", "<", ">", "\xff", "\xe3\x81",
	}
	part := rapid.OneOf(rapid.SampledFrom(parts), rapid.SampledFrom(parts), rapid.Map(rapid.Rune(), func(r rune) string { return string(r) }))
	return rapid.Map(rapid.SliceOfN(part, 0, maxMarks), func(parts []string) string { return strings.Join(parts, "") })
}

func TestComposeLongAgreesWithText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := composing().Draw(t, "text")
		if got, want := composeLong(s), norm.NFC.String(s); got != want {
			t.Fatalf("composeLong(%+q)\n got %+q\nwant %+q", s, got, want)
		}
	})
}

// TestLongRunsOfMarks sees to it that no grapheme joiner is put in. The wanted texts follow from the definition of NFC;
// Hugging Face's library agrees on such cases in qwen35.json.
func TestLongRunsOfMarks(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"one mark", "a" + strings.Repeat("\u0301", 1000), "á" + strings.Repeat("\u0301", 999)},
		{"two classes", "q" + strings.Repeat("\u0301\u0323", 500), "q" + strings.Repeat("\u0323", 500) + strings.Repeat("\u0301", 500)},
		{"compose over another class", "a" + strings.Repeat("\u0327", 100) + "\u0301", "á" + strings.Repeat("\u0327", 100)},
		{"no starter", strings.Repeat("\u0344", 40), strings.Repeat("\u0308\u0301", 40)},
		{"korean vowels", strings.Repeat("\u1161", 100), strings.Repeat("\u1161", 100)},
		{"korean finals", "\u1112\u1161" + strings.Repeat("\u11ab", 100), "한" + strings.Repeat("\u11ab", 99)},
		{"bengali vowels", "\u09c7" + strings.Repeat("\u09be", 100), "\u09cb" + strings.Repeat("\u09be", 99)},
		{"the rest is composed too", strings.Repeat("\u0301", 40) + " e\u0301 \u1112\u1161\u11ab", strings.Repeat("\u0301", 40) + " é 한"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := nfc(test.text); got != test.want {
				t.Errorf("got %+q\nwant %+q", got, test.want)
			}
		})
	}
}
