package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"lilypad/protocol/fake"
	"lilypad/supervisor/process"
)

// The official Go SDK as a client.

func sdk(s *httptest.Server) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("none"), option.WithHTTPClient(s.Client()))
}

func question() openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:    "lilypad",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage("What is 17 + 25?")},
		Seed:     openai.Int(7),
	}
	p.SetExtraFields(map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}})
	return p
}

func TestSDKAnswer(t *testing.T) {
	t.Parallel()
	for _, faults := range [][]fake.Faults{nil, {{Die: true, DieAt: 4}}} {
		s := serve(t, &rig{text: "17 + 25 = 42.", faults: faults}, nil)
		client := sdk(s)
		a, err := client.Chat.Completions.New(t.Context(), question())
		if err != nil {
			t.Fatal(err)
		}
		if c := a.Choices[0]; c.Message.Content != "17 + 25 = 42." || c.FinishReason != "stop" || a.Model != "lilypad-demo" ||
			a.Usage.CompletionTokens != 13 || a.Usage.TotalTokens != a.Usage.PromptTokens+13 {
			t.Errorf("got %s", a.RawJSON())
		}
	}
}

func TestSDKStream(t *testing.T) {
	t.Parallel()
	for _, faults := range [][]fake.Faults{nil, {{Die: true, DieAt: 4}, {DieIn: fake.PlacePrefill}}} {
		s := serve(t, &rig{text: "17 + 25 = 42.", faults: faults, cause: process.Killed}, nil)
		p := question()
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		client := sdk(s)
		stream := client.Chat.Completions.NewStreaming(t.Context(), p)
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Errorf("chunk does not fit: %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if c := acc.Choices[0]; c.Message.Content != "17 + 25 = 42." || c.FinishReason != "stop" || acc.Usage.CompletionTokens != 13 {
			t.Errorf("got %q, %s, %d tokens", c.Message.Content, c.FinishReason, acc.Usage.CompletionTokens)
		}
	}
}

func TestSDKSeesAnErrorInTheStream(t *testing.T) {
	t.Parallel()
	s := serve(t, &rig{text: "17 + 25 = 42.", faults: []fake.Faults{{Die: true, DieAt: 5}, {Die: true}}}, nil)
	client := sdk(s)
	stream := client.Chat.Completions.NewStreaming(t.Context(), question())
	text := ""
	for stream.Next() {
		if c := stream.Current().Choices; len(c) > 0 {
			text += c[0].Delta.Content
		}
	}
	err := stream.Err()
	if text != "17 + " || err == nil || !strings.Contains(err.Error(), "engine_crashed") || !strings.Contains(err.Error(), "crashed twice in a row") {
		t.Errorf("got %q and %v", text, err)
	}
}

func TestSDKErrorsBeforeTheStream(t *testing.T) {
	t.Parallel()
	var failure *openai.Error

	r := &rig{text: "x", faults: []fake.Faults{{Die: true}, {Die: true}, {Die: true}}}
	s := serve(t, r, nil)
	client := sdk(s)
	_, err := client.Chat.Completions.New(t.Context(), question())
	if !errors.As(err, &failure) || failure.StatusCode != 500 || failure.Code != "engine_crashed" {
		t.Errorf("got %v", err)
	}
	if r.count != 2 {
		t.Errorf("%d workers: the SDK sent a poison request again", r.count)
	}

	p := question()
	p.Model = "gpt-4o"
	if _, err := client.Chat.Completions.New(t.Context(), p); !errors.As(err, &failure) || failure.StatusCode != 404 || failure.Code != "model_not_found" || failure.Param != "model" {
		t.Errorf("got %v", err)
	}
	p = question()
	p.N = openai.Int(3)
	if _, err := client.Chat.Completions.New(t.Context(), p); !errors.As(err, &failure) || failure.StatusCode != 400 || failure.Param != "n" {
		t.Errorf("got %v", err)
	}
	models, err := client.Models.List(context.Background())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "lilypad-demo" {
		t.Errorf("got %v, %v", models, err)
	}
}
