package chat

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilypad/protocol"
)

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"developer", `{"role":"developer","content":"x"}`, `{"role": "system", "content": "x"}`},
		{"other name of reasoning", `{"role":"assistant","reasoning":"r","content":"x"}`,
			`{"role": "assistant", "content": "x", "reasoning_content": "r"}`},
		{"both names", `{"role":"assistant","reasoning":"r","reasoning_content":"c"}`, `{"role": "assistant", "reasoning_content": "c"}`},
		{"arguments as text", `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"b\":1.0,\"a\":[]}"}}]}`,
			`{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1.0, "a": []}}}]}`},
		{"no arguments", `{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f","arguments":" "}}]}`,
			`{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "f", "arguments": {}}}]}`},
		{"flat call", `{"role":"assistant","tool_calls":[{"name":"f","arguments":"{}"}]}`,
			`{"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]}`},
		{"no calls", `{"role":"assistant","content":null,"tool_calls":null}`, `{"role": "assistant", "content": null, "tool_calls": null}`},
	} {
		got, err := Normalize(Conversation{Messages: []Value{parse(t, c.message)}})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got.Messages[0].JSON()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestNormalizeErrors(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"no object", `"hi"`, "messages[1]: a message is an object, not a string"},
		{"no role", `{"content":"x"}`, "messages[1]: role is missing or not a string"},
		{"calls", `{"role":"assistant","tool_calls":{}}`, "messages[1]: tool_calls is an array, not an object"},
		{"call", `{"role":"assistant","tool_calls":[1]}`, "messages[1]: tool_calls[0] is an object, not a number"},
		{"function", `{"role":"assistant","tool_calls":[{"function":"f"}]}`, "messages[1]: tool_calls[0].function is an object, not a string"},
		{"name", `{"role":"assistant","tool_calls":[{"function":{}}]}`, "messages[1]: tool_calls[0] has no name"},
		{"broken arguments", `{"role":"assistant","tool_calls":[{"name":"f"},{"name":"f","arguments":"{"}]}`,
			"messages[1]: tool_calls[1]: arguments are no JSON object: JSON ends too early"},
		{"arguments of another kind", `{"role":"assistant","tool_calls":[{"name":"f","arguments":"[1]"}]}`,
			"messages[1]: tool_calls[0]: arguments are an array, not a JSON object"},
		{"arguments that are a number", `{"role":"assistant","tool_calls":[{"name":"f","arguments":1}]}`,
			"messages[1]: tool_calls[0]: arguments are a number, not a JSON object"},
	} {
		_, err := Normalize(Conversation{Messages: []Value{say("user", "q"), parse(t, c.message)}})
		var raised *TemplateError
		if !errors.As(err, &raised) || raised.Index != 1 || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	_, err := Normalize(Conversation{Options: map[string]Value{"messages": Null}})
	if err == nil || err.Error() != "chat_template_kwargs can't set messages" {
		t.Error(err)
	}
}

func TestTemplateErrorNamesTheMessage(t *testing.T) {
	image := parse(t, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`)
	for _, c := range []struct {
		name     string
		messages []Value
		index    int
	}{
		{"no messages", nil, -1},
		{"unknown role", []Value{say("user", "a"), say("assistant", "b"), say("oracle", "c"), say("user", "d")}, 2},
		{"unknown role at the start", []Value{say("oracle", "c"), say("user", "d")}, 0},
		{"image", []Value{say("system", "a"), say("user", "b"), say("assistant", "b"), image}, 3},
		{"image in the first", []Value{image}, 0},
	} {
		_, err := newTemplate(t, demoSource(t), false).Render(Conversation{Messages: c.messages})
		var raised *TemplateError
		if !errors.As(err, &raised) || raised.Index != c.index {
			t.Errorf("%s: %v, want message %d", c.name, err, c.index)
		}
	}
}

// lateSystem has system messages in all the places that clients put them.
func lateSystem() []Value {
	call := Object(Field{"name", String("f")})
	return []Value{say("system", "A"), say("developer", " B\n"), say("user", "q"),
		say("assistant", "").With("reasoning_content", String("r")).With("tool_calls", Array(call)),
		say("tool", "1"), say("system", "C <think>"), say("tool", "2"), say("assistant", "done"), say("system", "")}
}

func TestLateSystem(t *testing.T) {
	const head = "<|im_start|>system\nA<|im_end|>\n<|im_start|>system\nB<|im_end|>\n<|im_start|>user\nq<|im_end|>\n" +
		"<|im_start|>assistant\n<think>\nr\n</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n<|im_start|>system\nC "
	const tail = "<|im_end|>\n<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n" +
		"<|im_start|>assistant\n<think>\n\n</think>\n\ndone<|im_end|>\n<|im_start|>system\n<|im_end|>\n"
	want := []protocol.Span{{Text: head}, {Text: "<think>", Literal: true}, {Text: tail}}
	for _, f := range []struct {
		name   string
		source func(testing.TB) string
	}{{"demo", demoSource}, {"official", officialSource}} {
		t.Run(f.name, func(t *testing.T) {
			template := newTemplate(t, f.source(t), false)
			got, err := template.Render(Conversation{Messages: lateSystem()})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for n := 3; n < len(lateSystem()); n++ {
				before, err := template.Render(Conversation{Messages: lateSystem()[:n]})
				if err != nil {
					t.Fatal(err)
				}
				if role, _ := lateSystem()[n].Get("role"); role.text == "system" && !HasPrefix(appended(t, template, n), before) {
					t.Errorf("a system message after %d others changed what is before it", n)
				}
			}
		})
	}
}

func appended(t *testing.T, template *Template, n int) []protocol.Span {
	t.Helper()
	spans, err := template.Render(Conversation{Messages: lateSystem()[:n+1]})
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

func TestLateSystemIsTextOnly(t *testing.T) {
	source := `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}` +
		`{{ '<|im_start|>' + m.role + '\n' }}{{ m.content if m.content is string else 'parts' }}{{ '<|im_end|>\n' }}{% endfor %}`
	template := newTemplate(t, source, false)
	parts := func(part string) Value { return parse(t, `{"role":"system","content":[`+part+`]}`) }
	spans, err := template.Render(Conversation{Messages: []Value{say("user", "q"), parts(`{"type":"text","text":"a"},{"type":"text","text":"b"}`)}})
	if err != nil || !strings.HasSuffix(joined(spans), "<|im_start|>system\nab<|im_end|>\n") {
		t.Errorf("%q, %v", joined(spans), err)
	}
	_, err = template.Render(Conversation{Messages: []Value{say("user", "q"), parts(`{"type":"image"}`)}})
	var raised *TemplateError
	if !errors.As(err, &raised) || raised.Index != 1 {
		t.Error(err)
	}
}

// TestCheckpointPrefix says what the API relies on: the rendering without the generation prompt is a prefix of the one
// with it.
func TestCheckpointPrefix(t *testing.T) {
	template := newTemplate(t, demoSource(t), false)
	for _, c := range readCases(t, "testdata/jinja_conversations.json") {
		conversation := conversationOf(c.Input)
		conversation.Generate = false
		short, err := template.Render(conversation)
		if err != nil {
			continue
		}
		conversation.Generate = true
		long, err := template.Render(conversation)
		if err != nil {
			t.Fatal(err)
		}
		thinking := conversation.Options["enable_thinking"]
		off := thinking.Kind() == BoolKind && !thinking.truth
		if !HasPrefix(long, short) || OpenThink(long) == off {
			t.Errorf("%s: prefix %v, ends in a think block %v", c.Name, HasPrefix(long, short), OpenThink(long))
		}
	}
}

func TestRefusedTemplates(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"none", " \n", "the checkpoint has no chat template"},
		{"huge", strings.Repeat("x", maxTemplateBytes+1), "at most 262144"},
		{"unknown filter", "a\n{{ messages|shuffle }}", `line 2: the filter "shuffle" is not supported`},
		{"unknown test", "{% if messages is prime %}{% endif %}", `line 1: the test "prime" is not supported`},
		{"files", "{% include '/etc/passwd' %}", "{% include %} is not supported"},
		{"recursive loop", "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "recursive loops are not supported"},
		{"open expression", "{{ messages", "ends too early"},
		{"open string", "{{ 'messages", "unreadable expression"},
		{"digit of another script", "{# é #}\n{{ 'é' }} é {{ \u06f1 }}", "line 2: an expression with a character that is not ASCII"},
		{"brackets", "{{ (messages] }}", "the chat template can't be read"},
		{"open block", "{% if messages %}", "the chat template can't be read"},
		{"fails", "{{ 'x'.explode() }}", "calls explode of a string"},
		{"undefined item", "{{ nothing[0] }}", "an item of an undefined value"},
	} {
		_, err := NewTemplate(TemplateInfo{Source: c.source})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0 || len(err.Error()) > 200 {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestBounds: a template that does not end, or grows, ends in an error.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"loops", "{% for a in range(3000) %}{% for b in range(3000) %}{% for c in range(3000) %}{% endfor %}{% endfor %}{% endfor %}", "does not come to an end"},
		{"condition", "{% for a in range(3000) %}{% for b in range(3000) if false %}{% endfor %}{% endfor %}", "does not come to an end"},
		{"output", "{% for a in range(90000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}", "writes more than"},
		{"doubling", "{% set ns = namespace(x='abc') %}{% for a in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "writes more than"},
		{"doubling without a namespace", "{% for a in range(1) %}" + strings.Repeat("{% set x = (x or 'abc') ~ (x or 'abc') %}", 60) + "{% endfor %}", "writes more than"},
		{"endless macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end"},
		{"two macros", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "without end"},
		{"range", "{{ range(1000000000)|length }}", "range of more than"},
		{"repetition", "{{ ('abc'|trim) * 1000000000000 }}", "multiplies a string"},
		{"replacement", "{{ (range(90000)|join('abcdefgh')).replace('', range(90000)|join('abcdefgh')) }}", "makes a string of more than"},
		{"join", "{{ range(90000)|join(range(90000)|join('abcdefgh')) }}", "makes a string of more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			template, err := readTemplate(TemplateInfo{Source: c.source})
			if err != nil {
				t.Fatal(err)
			}
			template.steps /= 10
			if err := template.tryOut(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestStrftime(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 3, 5, 7, 8, 9, 0, time.UTC) }
	template, err := NewTemplate(TemplateInfo{Source: "{{ strftime_now('%Y-%m-%d %B %-d %H:%M:%S %%') }}", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	spans, err := template.Render(Conversation{})
	if err != nil || joined(spans) != "2026-03-05 March 5 07:08:09 %" {
		t.Errorf("%q, %v", joined(spans), err)
	}
}
