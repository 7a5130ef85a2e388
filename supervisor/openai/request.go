package openai

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Limits of a request body.
const (
	MaxDepth     = 128  // nested arrays and objects
	MaxStops     = 16   // stop strings; OpenAI allows 4, other local servers more
	MaxStopBytes = 1024 // of one stop string
)

// ChatRequest is a checked request body of POST /v1/chat/completions. What is nil was not sent, or was null.
type ChatRequest struct {
	Model          string          // empty if not sent
	Messages       json.RawMessage // a JSON array with at least one element
	Stream         bool            //
	IncludeUsage   bool            // stream_options.include_usage
	MaxTokens      int             // the smaller of max_tokens and max_completion_tokens; 0 if neither was sent
	Temperature    *float64        // [0, 2]
	TopP           *float64        // (0, 1]
	TopK           *int            // 0 keeps all (-1 is read as 0)
	MinP           *float64        // [0, 1]
	Seed           *uint64         // the 64 bits of the number sent, which may be negative
	Stop           []string        // none is empty
	TemplateKwargs json.RawMessage // a JSON object; nil if not sent
}

// ParseChat reads a request body. Unknown fields are ignored; a known parameter that this server can't honour is refused
// unless its value changes nothing.
func ParseChat(body []byte) (*ChatRequest, *Error) {
	top, bad := object(body)
	if bad != nil {
		return nil, bad
	}
	for name, value := range top {
		if bytes.Equal(value, []byte("null")) {
			delete(top, name)
		}
	}
	if bad := refuseUnsupported(top); bad != nil {
		return nil, bad
	}

	f := fields{top: top}
	r := &ChatRequest{
		Model:          f.text("model"),
		Messages:       f.array("messages"),
		Stream:         f.flag("stream"),
		IncludeUsage:   f.includeUsage(),
		MaxTokens:      f.maxTokens(),
		Temperature:    f.number("temperature", 0, 2, false),
		TopP:           f.number("top_p", 0, 1, true),
		TopK:           f.topK(),
		MinP:           f.number("min_p", 0, 1, false),
		Seed:           f.seed(),
		Stop:           f.stops(),
		TemplateKwargs: f.object("chat_template_kwargs"),
	}
	if f.bad != nil {
		return nil, f.bad
	}
	if r.Messages == nil {
		return nil, Invalid("messages", "messages is missing: send at least one message")
	}
	return r, nil
}

// object splits the body into its top-level fields.
func object(body []byte) (map[string]json.RawMessage, *Error) {
	if depth(body) > MaxDepth {
		return nil, Invalid("", "the body nests arrays and objects more than %d deep", MaxDepth)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, Invalid("", "the body must be a JSON object, not %s", kindOf(body))
		}
		return nil, Invalid("", "the body is not valid JSON: %v", err)
	}
	if top == nil {
		return nil, Invalid("", "the body must be a JSON object, not null")
	}
	return top, nil
}

// depth is the deepest nesting of brackets outside strings. It runs before the JSON decoder, so it must stand any bytes.
func depth(body []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}

// kindOf names the JSON type of a value for an error message.
func kindOf(value []byte) string {
	switch value = bytes.TrimSpace(value); {
	case len(value) == 0:
		return "nothing"
	case value[0] == '"':
		return "a string"
	case value[0] == '[':
		return "an array"
	case value[0] == '{':
		return "an object"
	case value[0] == 't' || value[0] == 'f':
		return "a boolean"
	case value[0] == 'n':
		return "null"
	}
	return "a number"
}
