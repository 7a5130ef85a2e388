package chat

import (
	"fmt"
	"strings"
	"testing"
)

// agentConversation is what a coding agent sends: a long system prompt, many tools and a few rounds of calls.
func agentConversation(inlineThinking bool) Conversation {
	system := strings.Repeat("You may use <tools> & write code: if a < b { return \"x\" }.\nFollow the rules, \u2014 always.\n", 1100)
	c := Conversation{Messages: []Value{say("system", system)}, Generate: true}
	for i := range 30 {
		var properties []Field
		for k := range 8 {
			properties = append(properties, Field{fmt.Sprintf("argument_%d", k), Object(Field{"type", String("string")},
				Field{"description", String("What the argument means, and when to leave it out <optional>.")})})
		}
		c.Tools = append(c.Tools, Object(Field{"type", String("function")}, Field{"function", Object(
			Field{"name", String(fmt.Sprintf("tool_%d", i))}, Field{"description", String(strings.Repeat("Does a thing. ", 20))},
			Field{"parameters", Object(Field{"type", String("object")}, Field{"properties", Object(properties...)})})}))
	}
	answer := say("assistant", "Done.").With("reasoning_content", String("hm"))
	if inlineThinking {
		answer = say("assistant", "<think>\nhm\n</think>\n\nDone.")
	}
	for i := range 10 {
		arguments := Object(Field{"path", String("/tmp/x")}, Field{"line", Int(int64(i))})
		call := Object(Field{"function", Object(Field{"name", String("tool_1")}, Field{"arguments", String(arguments.JSON())})})
		c.Messages = append(c.Messages, say("user", "Go on, please."), say("assistant", "").With("tool_calls", Array(call)),
			say("tool", strings.Repeat("some <output> of the tool\n", 20)), answer)
	}
	return c
}

func benchmarkRender(b *testing.B, source string, c Conversation) {
	template := newTemplate(b, source, false)
	spans, err := template.Render(c)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(joined(spans))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := template.Render(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenderDemo(b *testing.B) { benchmarkRender(b, demoSource(b), agentConversation(false)) }

// With tokens in messages everything is rendered twice or more.
func BenchmarkRenderTokens(b *testing.B) { benchmarkRender(b, demoSource(b), agentConversation(true)) }

func BenchmarkRenderOfficial(b *testing.B) {
	benchmarkRender(b, officialSource(b), agentConversation(false))
}

func BenchmarkRenderShort(b *testing.B) {
	benchmarkRender(b, demoSource(b), Conversation{Messages: []Value{say("user", "What is 17 + 25?")}, Generate: true})
}
