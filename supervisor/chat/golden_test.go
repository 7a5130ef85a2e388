package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
	demomodel "lilypad/scripts/demo-model"
)

// goldenCase is one rendering by Hugging Face transformers.
type goldenCase struct {
	Name     string `json:"name"`
	Input    Value  `json:"input"`
	Rendered string `json:"rendered"`
	Error    string `json:"error"`
}

func readCases(t testing.TB, path string) []goldenCase {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	return cases
}

// conversationOf reads the arguments of apply_chat_template.
func conversationOf(input Value) Conversation {
	var c Conversation
	for _, f := range input.Fields() {
		switch f.Name {
		case "messages":
			c.Messages = f.Value.Items()
		case "tools":
			c.Tools = f.Value.Items()
			if f.Value.Kind() == ArrayKind && c.Tools == nil {
				c.Tools = []Value{}
			}
		case "add_generation_prompt":
			c.Generate, _ = f.Value.Truth()
		default:
			if c.Options == nil {
				c.Options = map[string]Value{}
			}
			c.Options[f.Name] = f.Value
		}
	}
	return c
}

// qwenTokens are the added tokens of the family that a template could write.
func qwenTokens() []protocol.AddedToken {
	var added []protocol.AddedToken
	for i, content := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
		"<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"} {
		added = append(added, protocol.AddedToken{ID: int32(248044 + i), Content: content, Special: strings.HasPrefix(content, "<|")})
	}
	return added
}

func newTemplate(t testing.TB, source string, allowControl bool) *Template {
	t.Helper()
	template, err := NewTemplate(TemplateInfo{Source: source, Added: qwenTokens(), AllowControl: allowControl})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func demoSource(t testing.TB) string {
	t.Helper()
	source, err := fs.ReadFile(demomodel.FS(), "chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

func officialSource(t testing.TB) string {
	t.Helper()
	path := os.Getenv("LILYPAD_OFFICIAL_TEMPLATE")
	if path == "" {
		t.Skip("LILYPAD_OFFICIAL_TEMPLATE names no template")
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

func joined(spans []protocol.Span) string {
	var text strings.Builder
	for _, s := range spans {
		text.WriteString(s.Text)
	}
	return text.String()
}

func checkCases(t *testing.T, source string, cases []goldenCase) {
	for _, allow := range []bool{false, true} {
		template, err := NewTemplate(TemplateInfo{Source: source, Added: qwenTokens(), AllowControl: allow, StrictSystem: true})
		if err != nil {
			t.Fatal(err)
		}
		passed := 0
		for _, c := range cases {
			if checkCase(t, template, c) {
				passed++
			}
		}
		t.Logf("%d of %d cases as in transformers, control tokens allowed: %v", passed, len(cases), allow)
	}
}

func checkCase(t *testing.T, template *Template, c goldenCase) bool {
	spans, err := template.Render(conversationOf(c.Input))
	if c.Error != "" {
		var raised *TemplateError
		if !errors.As(err, &raised) || !strings.Contains(c.Error, raised.Message) {
			t.Errorf("%s: error %v, want %q", c.Name, err, c.Error)
			return false
		}
		return true
	}
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return false
	}
	if diff := cmp.Diff(c.Rendered, joined(spans)); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", c.Name, diff)
		return false
	}
	return true
}

func TestDemoGoldens(t *testing.T) {
	checkCases(t, demoSource(t), readCases(t, "testdata/chat_template_demo.json"))
}

// TestOfficialGoldens needs files that are not ours to publish: the template of the real checkpoint and renderings of it,
// named by LILYPAD_OFFICIAL_TEMPLATE and LILYPAD_OFFICIAL_CASES.
func TestOfficialGoldens(t *testing.T) {
	source := officialSource(t)
	paths := os.Getenv("LILYPAD_OFFICIAL_CASES")
	if paths == "" {
		t.Skip("LILYPAD_OFFICIAL_CASES names no cases")
	}
	for _, path := range filepath.SplitList(paths) {
		checkCases(t, source, readCases(t, path))
	}
}

// TestDemoRandom compares with Jinja2 itself; testdata/jinja.py made the cases.
func TestDemoRandom(t *testing.T) {
	checkCases(t, demoSource(t), readCases(t, "testdata/jinja_conversations.json"))
}

// TestSnippets compares one feature of Jinja2 a line; testdata/jinja.py made them.
func TestSnippets(t *testing.T) {
	data, err := os.ReadFile("testdata/jinja_snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vars  Value
		Cases []struct{ Source, Rendered, Raised string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	c := Conversation{Messages: []Value{message("user", "x")}, Options: map[string]Value{}}
	for _, f := range file.Vars.Fields() {
		c.Options[f.Name] = f.Value
	}
	for _, s := range file.Cases {
		template, err := readTemplate(TemplateInfo{Source: s.Source, AllowControl: true})
		if err != nil {
			t.Errorf("%s\n\t%v", s.Source, err)
			continue
		}
		spans, err := template.Render(c)
		var raised *TemplateError
		if s.Raised != "" {
			if !errors.As(err, &raised) || raised.Message != s.Raised {
				t.Errorf("%s\n\terror %v, want %s", s.Source, err, s.Raised)
			}
			continue
		}
		if err != nil || joined(spans) != s.Rendered {
			t.Errorf("%s\n\t got %q %v\n\twant %q", s.Source, joined(spans), err, s.Rendered)
		}
	}
}
