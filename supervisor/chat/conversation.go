package chat

import (
	"fmt"
	"strings"
)

// Conversation is what a template renders. Messages and tools are objects in the shape of OpenAI's chat API.
type Conversation struct {
	Messages []Value
	Tools    []Value
	Options  map[string]Value // chat_template_kwargs, such as enable_thinking and preserve_thinking
	Generate bool             // end with the generation prompt
}

// TemplateError says why a conversation can't be rendered: what the template itself raised, or what is wrong with a
// message. It is the client's fault and safe to send back.
type TemplateError struct {
	Message string
	Index   int // the message it concerns, -1 if that can't be told
}

func (e *TemplateError) Error() string {
	if e.Index < 0 {
		return e.Message
	}
	return fmt.Sprintf("messages[%d]: %s", e.Index, e.Message)
}

func messageError(index int, format string, args ...any) *TemplateError {
	return &TemplateError{Message: fmt.Sprintf(format, args...), Index: index}
}

// reservedOptions are the template variables that a request's other fields set.
var reservedOptions = []string{"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}

// Normalize returns c in the form that templates expect, which is what Render renders: the role developer becomes
// system, `reasoning` becomes `reasoning_content`, and arguments of tool calls, which OpenAI clients send as a JSON
// string, become an object. The error is a *TemplateError.
func Normalize(c Conversation) (Conversation, error) {
	for _, name := range reservedOptions {
		if _, ok := c.Options[name]; ok {
			return c, messageError(-1, "chat_template_kwargs can't set %s", name)
		}
	}
	messages := make([]Value, len(c.Messages))
	for i, m := range c.Messages {
		var err error
		if messages[i], err = normalizeMessage(i, m); err != nil {
			return c, err
		}
	}
	c.Messages = messages
	return c, nil
}

func normalizeMessage(index int, m Value) (Value, error) {
	if m.Kind() != ObjectKind {
		return m, messageError(index, "a message is an object, not %s", m.Kind())
	}
	roleValue, _ := m.Get("role")
	role, ok := roleValue.Text()
	if !ok {
		return m, messageError(index, "role is missing or not a string")
	}
	if role == "developer" {
		m = m.With("role", String("system"))
	}
	if reasoning, ok := m.Get("reasoning"); ok {
		if current, _ := m.Get("reasoning_content"); current.IsNull() {
			m = m.With("reasoning_content", reasoning)
		}
		m = m.Without("reasoning")
	}
	calls, _ := m.Get("tool_calls")
	switch calls.Kind() {
	case NullKind:
		return m, nil
	case ArrayKind:
		return normalizeCalls(index, m, calls.Items())
	}
	return m, messageError(index, "tool_calls is an array, not %s", calls.Kind())
}

func normalizeCalls(index int, m Value, calls []Value) (Value, error) {
	decoded := make([]Value, len(calls))
	for i, call := range calls {
		if call.Kind() != ObjectKind {
			return m, messageError(index, "tool_calls[%d] is an object, not %s", i, call.Kind())
		}
		function, wrapped := call.Get("function")
		if !wrapped {
			function = call
		}
		if function.Kind() != ObjectKind {
			return m, messageError(index, "tool_calls[%d].function is an object, not %s", i, function.Kind())
		}
		if name, _ := function.Get("name"); name.Kind() != StringKind {
			return m, messageError(index, "tool_calls[%d] has no name", i)
		}
		arguments, err := decodeArguments(function)
		if err != nil {
			return m, messageError(index, "tool_calls[%d]: %v", i, err)
		}
		function = function.With("arguments", arguments)
		if wrapped {
			function = call.With("function", function)
		}
		decoded[i] = function
	}
	return m.With("tool_calls", Array(decoded...)), nil
}

// decodeArguments returns the arguments of a call as an object. None at all count as an empty object.
func decodeArguments(function Value) (Value, error) {
	arguments, _ := function.Get("arguments")
	switch text, _ := arguments.Text(); arguments.Kind() {
	case ObjectKind:
		return arguments, nil
	case NullKind:
		return Object(), nil
	case StringKind:
		if strings.TrimSpace(text) == "" {
			return Object(), nil
		}
		decoded, err := ParseJSON([]byte(text))
		if err != nil {
			return decoded, fmt.Errorf("arguments are no JSON object: %w", err)
		}
		if decoded.Kind() != ObjectKind {
			return decoded, fmt.Errorf("arguments are %s, not a JSON object", decoded.Kind())
		}
		return decoded, nil
	}
	return arguments, fmt.Errorf("arguments are %s, not a JSON object", arguments.Kind())
}
