package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// FuzzTemplate: whatever a checkpoint brings as its template, reading and trying it out ends, without a panic, in a
// template or in one line of text.
func FuzzTemplate(f *testing.F) {
	f.Add(demoSource(f))
	data, err := os.ReadFile("testdata/jinja_snippets.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct{ Cases []struct{ Source string } }
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(c.Source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		_, err := NewTemplate(TemplateInfo{Source: source, Added: qwenTokens()})
		if err != nil && (len(err.Error()) > 400 || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("long error: %v", err)
		}
	})
}
