package generate

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reference looks at every prefix of the text, shortest first, and there for the longest stop string that ends it.
func reference(text string, list []string) (out string, hit bool) {
	for end := range len(text) + 1 {
		longest := ""
		for _, s := range list {
			if strings.HasSuffix(text[:end], s) && len(s) > len(longest) {
				longest = s
			}
		}
		if longest != "" {
			return text[:end-len(longest)], true
		}
	}
	return text, false
}

func TestStopsDoNotDependOnThePieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 4, -1)
		list := rapid.SliceOfN(alphabet, 0, 4).Draw(t, "stops")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 30, -1).Draw(t, "text")
		want, wantHit := reference(text, list)
		s := stops{list: list}
		got, hit := "", false
		for rest := text; rest != "" && !hit; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			var out string
			out, hit = s.push(rest[:n])
			got += out
			rest = rest[n:]
			if !hit && !strings.HasPrefix(want, got) {
				t.Fatalf("%q went out early, want %q", got, want)
			}
		}
		if !hit {
			got += s.flush()
		}
		if got != want || hit != wantHit {
			t.Fatalf("got %q, %v, want %q, %v", got, hit, want, wantHit)
		}
	})
}
