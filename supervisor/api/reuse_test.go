package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilypad/protocol"
	"lilypad/protocol/fake"
)

// turn sends a conversation and returns the prompt tokens, how many were cached, and the answer.
func turn(t *testing.T, r *rig, messages []map[string]string, kwargs string) (prompt, cached int, content, reasoning string) {
	t.Helper()
	s := serve(t, r, nil)
	list, _ := json.Marshal(messages)
	status, body, _ := post(t, s, fmt.Sprintf(`{"messages":%s,"chat_template_kwargs":%s}`, list, kwargs))
	var a struct {
		Choices []struct {
			Message struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
		}
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	m := a.Choices[0].Message
	return a.Usage.Prompt, a.Usage.Details.Cached, m.Content, m.Reasoning
}

func TestTheNextTurnBranchesOffBeforeTheGenerationPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kwargs, text, suffix string }{
		{"thinking", `{}`, "hm\n</think>\n\nFine.", "<|im_start|>assistant\n<think>\n"},
		{"not thinking", `{"enable_thinking":false}`, "Fine.", "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &rig{text: c.text}
			talk := []map[string]string{{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How are you?"}}
			first, cached, content, reasoning := turn(t, r, talk, c.kwargs)
			if cached != 0 || content != "Fine." {
				t.Fatalf("cached %d, %q, %q", cached, content, reasoning)
			}
			p := first - len(tokensOf(c.suffix))
			talk = append(talk, map[string]string{"role": "assistant", "content": content, "reasoning_content": reasoning},
				map[string]string{"role": "user", "content": "And now?"})
			if _, cached, _, _ = turn(t, r, talk, c.kwargs); cached != p {
				t.Errorf("turn two took %d tokens from the cache, want %d", cached, p)
			}

			// Another conversation with the same system prompt shares it and the header of the user's turn.
			other := []map[string]string{{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me a story."}}
			shared := len(tokensOf("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"))
			if _, cached, _, _ = turn(t, r, other, c.kwargs); cached != shared {
				t.Errorf("another conversation took %d tokens, want %d", cached, shared)
			}
		})
	}
}

func tokensOf(text string) []int32 { return fake.Tokenize(protocol.Span{Text: text}) }

func TestLateSystemMessageHasNoSystemCheckpoint(t *testing.T) {
	t.Parallel()
	r := &rig{text: "Fine."}
	talk := []map[string]string{{"role": "user", "content": strings.Repeat("x", 10)}, {"role": "system", "content": "Be brief."}}
	if _, cached, _, _ := turn(t, r, talk, `{}`); cached != 0 {
		t.Errorf("%d cached", cached)
	}
}
