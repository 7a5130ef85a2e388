package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseChatReadsEveryField(t *testing.T) {
	t.Parallel()
	r, bad := ParseChat([]byte(`{"model":"lilypad","messages":[{"role":"user","content":"hi"}],"stream":true,
		"stream_options":{"include_usage":true},"max_tokens":9,"max_completion_tokens":7,"temperature":0,"top_p":1,
		"top_k":-1,"min_p":0.5,"seed":-1,"stop":["a","b"],"chat_template_kwargs":{"enable_thinking":false},
		"n":1,"presence_penalty":0.0,"frequency_penalty":0,"logprobs":false,"tools":[],"tool_choice":"none",
		"response_format":{"type":"text"},"logit_bias":{ },"user":"u","store":true,"metadata":{},"service_tier":"auto",
		"parallel_tool_calls":true,"an_unknown_field":[1]}`))
	if bad != nil {
		t.Fatal(bad)
	}
	if r.Model != "lilypad" || !r.Stream || !r.IncludeUsage || r.MaxTokens != 7 || *r.Temperature != 0 || *r.TopP != 1 ||
		*r.TopK != 0 || *r.MinP != 0.5 || *r.Seed != 1<<64-1 || strings.Join(r.Stop, ",") != "a,b" ||
		string(r.TemplateKwargs) != `{"enable_thinking":false}` || !bytes.HasPrefix(r.Messages, []byte("[")) {
		t.Errorf("got %+v", r)
	}
}

func TestParseChatSeeds(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]uint64{"0": 0, "-1": 1<<64 - 1, "18446744073709551615": 1<<64 - 1, "7.0": 7, "-9223372036854775808": 1 << 63} {
		r, bad := ParseChat([]byte(`{"messages":[{}],"seed":` + sent + `}`))
		if bad != nil || *r.Seed != want {
			t.Errorf("%s: got %v, %v", sent, r, bad)
		}
	}
	if _, bad := ParseChat([]byte(`{"messages":[{}],"seed":18446744073709551616}`)); bad == nil {
		t.Error("a seed of 65 bits was accepted")
	}
}

func TestParseChatTakesNullForAbsent(t *testing.T) {
	t.Parallel()
	r, bad := ParseChat([]byte(`{"messages":[{}],"model":null,"stream":null,"stop":null,"seed":null,"temperature":null,
		"tools":null,"logprobs":null,"response_format":null,"max_tokens":null,"stream_options":null,"n":null}`))
	if bad != nil {
		t.Fatal(bad)
	}
	if r.Temperature != nil || r.Seed != nil || r.Stop != nil || r.MaxTokens != 0 || r.Model != "" {
		t.Errorf("got %+v", r)
	}
}

func TestParseChatRefuses(t *testing.T) {
	t.Parallel()
	with := func(field string) string { return `{"messages":[{"role":"user","content":"x"}],` + field + `}` }
	for _, c := range []struct{ name, body, code, param, says string }{
		{"empty body", ``, "invalid_value", "", "not valid JSON"},
		{"truncated", `{"messages":[`, "invalid_value", "", "not valid JSON"},
		{"trailing garbage", with(`"n":1`) + `x`, "invalid_value", "", "not valid JSON"},
		{"array", `[1]`, "invalid_value", "", "not an array"},
		{"string", `"x"`, "invalid_value", "", "not a string"},
		{"number", ` 4`, "invalid_value", "", "not a number"},
		{"null", `null`, "invalid_value", "", "not null"},
		{"deep", with(`"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500)), "invalid_value", "", "128 deep"},
		{"very deep", strings.Repeat("[", 1<<20), "invalid_value", "", "128 deep"},
		{"no messages", `{}`, "invalid_value", "messages", "missing"},
		{"null messages", `{"messages":null}`, "invalid_value", "messages", "missing"},
		{"no message", `{"messages":[ ]}`, "invalid_value", "messages", "at least one"},
		{"messages object", `{"messages":{}}`, "invalid_value", "messages", "not an object"},
		{"model number", with(`"model":3`), "invalid_value", "model", "not a number"},
		{"stream string", with(`"stream":"true"`), "invalid_value", "stream", "not a string"},
		{"stream_options array", with(`"stream_options":[]`), "invalid_value", "stream_options", "not an array"},
		{"include_usage", with(`"stream_options":{"include_usage":1}`), "invalid_value", "stream_options.include_usage", "boolean"},
		{"max_tokens 0", with(`"max_tokens":0`), "invalid_value", "max_tokens", "at least 1"},
		{"max_tokens fraction", with(`"max_tokens":1.5`), "invalid_value", "max_tokens", "integer"},
		{"max_completion_tokens huge", with(`"max_completion_tokens":1e300`), "invalid_value", "max_completion_tokens", "64 bits"},
		{"temperature high", with(`"temperature":2.1`), "invalid_value", "temperature", "at most 2"},
		{"temperature low", with(`"temperature":-0.1`), "invalid_value", "temperature", "at least 0"},
		{"temperature huge", with(`"temperature":1e999`), "invalid_value", "temperature", "at most 2"},
		{"temperature string", with(`"temperature":"1"`), "invalid_value", "temperature", "not a string"},
		{"top_p 0", with(`"top_p":0`), "invalid_value", "top_p", "more than 0"},
		{"top_k", with(`"top_k":-2`), "invalid_value", "top_k", "at least -1"},
		{"min_p", with(`"min_p":1.01`), "invalid_value", "min_p", "at most 1"},
		{"seed", with(`"seed":"7"`), "invalid_value", "seed", "not a string"},
		{"empty stop", with(`"stop":""`), "invalid_value", "stop", "empty string"},
		{"empty stop in list", with(`"stop":["a",""]`), "invalid_value", "stop", "empty string"},
		{"null in stop", with(`"stop":[null]`), "invalid_value", "stop", "null"},
		{"number in stop", with(`"stop":[1]`), "invalid_value", "stop", "array of strings"},
		{"stop object", with(`"stop":{}`), "invalid_value", "stop", "not an object"},
		{"many stops", with(`"stop":["` + strings.Repeat(`a","`, 16) + `a"]`), "invalid_value", "stop", "17"},
		{"long stop", with(`"stop":"` + strings.Repeat("a", 1025) + `"`), "invalid_value", "stop", "1025"},
		{"kwargs", with(`"chat_template_kwargs":[]`), "invalid_value", "chat_template_kwargs", "not an array"},
		{"n", with(`"n":2`), "unsupported_parameter", "n", "n is not supported"},
		{"tools", with(`"tools":[{}]`), "unsupported_parameter", "tools", "tools"},
		{"tool_choice", with(`"tool_choice":"required"`), "unsupported_parameter", "tool_choice", "tool_choice"},
		{"presence", with(`"presence_penalty":0.1`), "unsupported_parameter", "presence_penalty", "0"},
		{"frequency", with(`"frequency_penalty":-1`), "unsupported_parameter", "frequency_penalty", "0"},
		{"logprobs", with(`"logprobs":true`), "unsupported_parameter", "logprobs", "false"},
		{"top_logprobs", with(`"top_logprobs":3`), "unsupported_parameter", "top_logprobs", "0"},
		{"logit_bias", with(`"logit_bias":{"1":2}`), "unsupported_parameter", "logit_bias", "{}"},
		{"response_format", with(`"response_format":{"type":"json_object"}`), "unsupported_parameter", "response_format", "text"},
		{"response_format string", with(`"response_format":"text"`), "unsupported_parameter", "response_format", "text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, bad := ParseChat([]byte(c.body))
			if bad == nil {
				t.Fatal("accepted")
			}
			param := ""
			if bad.Param != nil {
				param = *bad.Param
			}
			if bad.Status != 400 || bad.Type != TypeInvalid || bad.Code != c.code || param != c.param || !strings.Contains(bad.Message, c.says) {
				t.Errorf("got %d %s %q: %s", bad.Status, bad.Code, param, bad.Message)
			}
		})
	}
}

func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"x"}],"stop":["a"],"seed":1e3,"stream_options":{"include_usage":true}}`))
	f.Add([]byte(`{"messages":[{"role":"user"}],"temperature":-0.0,"top_p":1e-9,"n":1.0,"logit_bias":{ }}`))
	f.Add([]byte(`{"\ud800":"\u0000","messages":[[[[{}]]]]}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, bad := ParseChat(body)
		if (r == nil) == (bad == nil) {
			t.Fatalf("request %v, error %v", r, bad)
		}
		if bad != nil {
			if !json.Valid(bad.Body()) || bad.Status != 400 {
				t.Fatalf("error body %s", bad.Body())
			}
			return
		}
		if !json.Valid(body) || !json.Valid(r.Messages) || len(r.Stop) > MaxStops || r.MaxTokens < 0 {
			t.Fatalf("accepted %q as %+v", body, r)
		}
	})
}

func TestAppendStringAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "runes") {
			s = rapid.String().Draw(t, "s") + "\u2028\x7f\n\"\\"
		}
		var want, got string
		b, _ := json.Marshal(s)
		_ = json.Unmarshal(b, &want)
		ours := AppendString(nil, s)
		if err := json.Unmarshal(ours, &got); err != nil || got != want {
			t.Fatalf("%q: got %s (%v), want %s", s, ours, err, b)
		}
	})
}

// recorder keeps every write.
type recorder struct {
	writes  []string
	flushes int
	fail    error
}

func (r *recorder) Write(b []byte) (int, error) {
	r.writes = append(r.writes, string(b))
	return len(b), r.fail
}
func (r *recorder) Flush() error { r.flushes++; return nil }

func TestStreamFrames(t *testing.T) {
	t.Parallel()
	out := &recorder{}
	s := NewStream(out, "chatcmpl-1", 42, `a"b`, "fp")
	s.Role()
	s.Reasoning("hm\n")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	s.Content("é<tag>")
	s.KeepAlive("prefill")
	truth := &Lilypad{ServedBy: "local", Incarnation: 1, Recoveries: []Recovery{}}
	s.Finish(FinishStop, truth)
	s.Usage(Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}, truth)
	if err := s.Done(); err != nil {
		t.Fatal(err)
	}
	if len(out.writes) != 2 || out.flushes != 2 {
		t.Fatalf("%d writes and %d flushes, want 2 and 2", len(out.writes), out.flushes)
	}

	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":42,"model":"a\"b","system_fingerprint":"fp","choices":`
	const lilypad = `,"lilypad":{"served_by":"local","incarnation":1,"recoveries":[],"replayed_tokens":0,"seed":0}}`
	want := []string{
		head + `[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}`,
		head + `[{"index":0,"delta":{"reasoning_content":"hm\n"},"finish_reason":null}]}`,
		head + `[{"index":0,"delta":{"content":"é<tag>"},"finish_reason":null}]}`,
		head + `[{"index":0,"delta":{},"finish_reason":null}],"lilypad":{"phase":"prefill"}}`,
		head + `[{"index":0,"delta":{},"finish_reason":"stop"}]` + lilypad,
		head + `[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},` +
			`"completion_tokens_details":{"reasoning_tokens":0}}` + lilypad,
		`[DONE]`, ``,
	}
	frames := strings.Split(strings.Join(out.writes, ""), "\n\n")
	for i, frame := range frames {
		frame = strings.TrimPrefix(frame, "data: ")
		if frame != want[i] {
			t.Errorf("frame %d\n got %s\nwant %s", i, frame, want[i])
		}
		if i < 6 && !json.Valid([]byte(frame)) {
			t.Errorf("frame %d is no JSON", i)
		}
	}
}

func TestStreamFailWritesTheErrorInOnePiece(t *testing.T) {
	t.Parallel()
	out := &recorder{}
	s := NewStream(out, "c", 1, "m", "")
	s.Content("a")
	n := 3
	retry := true
	if err := s.Fail(&Error{Message: "gone", Type: TypeServer, Code: "engine_crashed", OutputTokens: &n, Retryable: &retry}); err != nil {
		t.Fatal(err)
	}
	if len(out.writes) != 3 || out.flushes != 3 {
		t.Fatalf("writes %q", out.writes)
	}
	want := `data: {"error":{"message":"gone","type":"server_error","code":"engine_crashed","param":null,"retryable":true,"output_tokens":3}}` + "\n\n"
	if out.writes[1] != want || out.writes[2] != "data: [DONE]\n\n" {
		t.Errorf("got %q", out.writes[1:])
	}
	out.fail = errors.New("closed")
	if err := s.Fail(&Error{}); !errors.Is(err, out.fail) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkContent(b *testing.B) {
	s := NewStream(discard{}, "chatcmpl-0123456789", 42, "lilypad-demo", "fp")
	b.ReportAllocs()
	for b.Loop() {
		s.Content(" token")
		_ = s.Flush()
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Flush() error                { return nil }
