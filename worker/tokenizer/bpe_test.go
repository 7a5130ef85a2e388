package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// bpeJSON returns a tokenizer.json with the given merges (of printable ASCII) in the layout "a b".
func bpeJSON(merges []string) []byte {
	var tokens []string
	for _, c := range spelling {
		tokens = append(tokens, string(c))
	}
	for _, m := range merges {
		if token := strings.ReplaceAll(m, " ", ""); !slices.Contains(tokens, token) {
			tokens = append(tokens, token)
		}
	}
	var vocab, rules []string
	for id, token := range tokens {
		vocab = append(vocab, fmt.Sprintf("%s: %d", quoteJSON(token), id))
	}
	for _, m := range merges {
		rules = append(rules, quoteJSON(m))
	}
	return fmt.Appendf(nil, `{"added_tokens": [], "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
		{"type": "Split", "pattern": {"Regex": %s}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}]},
		"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {%s}, "merges": [%s]}}`,
		quoteJSON(regexQwen35), strings.Join(vocab, ","), strings.Join(rules, ","))
}

// naive merges by the definition: as long as any rule applies, apply the one of lowest rank at its leftmost place.
func naive(t *Tokenizer, piece string) (ids []int32) {
	for i := range len(piece) {
		ids = append(ids, t.bytes[piece[i]])
	}
	for {
		best, at := merge{rank: noRank}, -1
		for i := 0; i+1 < len(ids); i++ {
			if m := t.merges.get(ids[i], ids[i+1]); m.rank < best.rank {
				best, at = m, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// TestMergeOrder draws vocabularies whose ranks need not grow with the length of their tokens, as no trainer would make
// them, and compares both merge loops with the definition.
func TestMergeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := []string{"a", "b", "c"}
		var merges []string
		for range rapid.IntRange(0, 30).Draw(t, "merges") {
			left, right := rapid.SampledFrom(tokens).Draw(t, "left"), rapid.SampledFrom(tokens).Draw(t, "right")
			if m := left + " " + right; !slices.Contains(merges, m) && len(m) < 12 {
				merges = append(merges, m)
				tokens = append(tokens, left+right)
			}
		}
		merges = rapid.Permutation(merges).Draw(t, "order")
		tok, err := Parse(bpeJSON(merges))
		if err != nil {
			t.Fatal(err)
		}
		piece := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 1, maxShort, -1).Draw(t, "piece")
		want := naive(tok, piece)
		if got := tok.mergeShort(piece); !slices.Equal(got, want) {
			t.Errorf("mergeShort(%q) with %v: got %v, want %v", piece, merges, got, want)
		}
		if got := tok.mergeLong(nil, piece); !slices.Equal(got, want) {
			t.Errorf("mergeLong(%q) with %v: got %v, want %v", piece, merges, got, want)
		}
	})
}

func TestMergeLongOfRealVocabulary(t *testing.T) {
	tok := demo(t)
	for name, piece := range map[string]string{
		"letters":    letters(2000),
		"one letter": strings.Repeat("e", 1001),
		"prose":      prose(t, 2000),
		"spaces":     strings.Repeat(" ", 777),
	} {
		if got, want := tok.mergeLong(nil, piece), naive(tok, piece); !slices.Equal(got, want) {
			t.Errorf("%s: got %v\nwant %v", name, got, want)
		}
	}
}
