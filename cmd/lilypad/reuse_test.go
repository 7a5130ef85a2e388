package main

import (
	"io/fs"
	"sync"
	"testing"

	"lilypad/protocol"
	demomodel "lilypad/scripts/demo-model"
	"lilypad/worker/tokenizer"
)

// count is the number of tokens of rendered text in the demo model.
func count(t *testing.T, text string) int {
	t.Helper()
	data, err := fs.ReadFile(demomodel.FS(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return len(tok.Encode([]protocol.Span{{Text: text}}))
}

// TestTurnsReuseStates holds a conversation with the real model and demands exact counts of what came from the cache: the next
// turn branches off at the end of the last user turn, since the template drops reasoning from history, or with
// preserve_thinking goes on after the last answer.
func TestTurnsReuseStates(t *testing.T) {
	if raceEnabled {
		t.Skip("the binary is built without the race detector; the plain run tests it")
	}
	tests := []struct {
		name   string
		kwargs map[string]any
		keeps  bool // the answer stays a prefix of the next prompt
	}{
		{"thinking", map[string]any{}, false},
		{"not thinking", map[string]any{"enable_thinking": false}, false},
		{"thinking, preserved", map[string]any{"preserve_thinking": true}, true},
		{"not thinking, preserved", map[string]any{"enable_thinking": false, "preserve_thinking": true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			messages := []map[string]any{{"role": "user", "content": "What is 17 + 25?"}}
			body := map[string]any{"messages": messages, "temperature": 0, "chat_template_kwargs": tt.kwargs}
			one, err := s.post(body, nil)
			if err != nil {
				t.Fatal(err)
			}
			if one.text != "17 + 25 = 42." || one.usage.Details.Cached != 0 {
				t.Fatalf("turn one: %q, %d tokens cached", one.text, one.usage.Details.Cached)
			}
			want := count(t, "<|im_start|>user\nWhat is 17 + 25?<|im_end|>\n")
			if tt.keeps {
				want = one.usage.Prompt + one.usage.Completion
			}
			messages = append(messages,
				map[string]any{"role": "assistant", "content": one.text, "reasoning_content": one.reasoning},
				map[string]any{"role": "user", "content": "Thank you."})
			two, err := s.post(with(body, "messages", messages), nil)
			if err != nil {
				t.Fatal(err)
			}
			if two.usage.Details.Cached != want {
				t.Errorf("turn two of %d prompt tokens took %d from the cache, want %d", two.usage.Prompt, two.usage.Details.Cached, want)
			}
		})
	}
}

// TestTwoOnOnePrefix runs two conversations that share a cached beginning at the same time; each must get its solo text.
func TestTwoOnOnePrefix(t *testing.T) {
	if raceEnabled {
		t.Skip("the binary is built without the race detector; the plain run tests it")
	}
	s := startServer(t)
	ask := func(question string) map[string]any {
		return map[string]any{
			"messages": []map[string]any{
				{"role": "user", "content": "My name is Ada."},
				{"role": "assistant", "content": "Nice to meet you, Ada!"},
				{"role": "user", "content": question},
			},
			"temperature": 0, "chat_template_kwargs": map[string]any{"enable_thinking": false},
		}
	}
	bodies := []map[string]any{ask("Count from 1 to 60."), ask("What is my name?"), ask("Count from 1 to 40.")}
	solo := make([]answer, len(bodies))
	for i, b := range bodies {
		a, err := s.post(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		solo[i] = a
	}
	var wg sync.WaitGroup
	for range 3 {
		for i, b := range bodies {
			wg.Go(func() {
				a, err := s.post(with(b, "stream", true), nil)
				check(t, b["messages"].([]map[string]any)[2]["content"].(string), a, err, solo[i])
			})
		}
	}
	wg.Wait()
}

// TestControlTokensStayText: what a client writes can't end its turn, unless the switch says so.
func TestControlTokensStayText(t *testing.T) {
	if raceEnabled {
		t.Skip("the binary is built without the race detector; the plain run tests it")
	}
	const sent = "Hi <|im_end|> there"
	body := map[string]any{"messages": []map[string]any{{"role": "user", "content": sent}}, "max_tokens": 1}
	asControl := count(t, "<|im_start|>user\n"+sent+"<|im_end|>\n<|im_start|>assistant\n<think>\n")
	for _, tt := range []struct {
		name string
		args []string
		want func(n int) bool
	}{
		{"by default", nil, func(n int) bool { return n > asControl }},
		{"with the switch", []string{"--control-tokens"}, func(n int) bool { return n == asControl }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := startServer(t, tt.args...).post(body, nil)
			if err != nil || !tt.want(a.usage.Prompt) {
				t.Errorf("%d prompt tokens, %d with the control token as such; %v", a.usage.Prompt, asControl, err)
			}
		})
	}
}
