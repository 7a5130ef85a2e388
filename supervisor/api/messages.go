package api

import (
	"fmt"
	"slices"

	"lilypad/supervisor/chat"
	"lilypad/supervisor/openai"
)

// roles are those that OpenAI clients send. What a checkpoint's template makes of them is its own affair.
var roles = []string{"system", "developer", "user", "assistant", "tool"}

// message checks one message: a template must meet only content that is a string, null or a list of text parts. A missing
// content counts as null.
func message(index int, m chat.Value) (chat.Value, *openai.Error) {
	name := fmt.Sprintf("messages[%d]", index)
	if m.Kind() != chat.ObjectKind {
		return m, openai.Invalid(name, "%s must be an object, not %s", name, m.Kind())
	}
	role, _ := m.Get("role")
	if text, ok := role.Text(); !ok || !slices.Contains(roles, text) {
		return m, openai.Invalid(name+".role", "%s.role must be one of %v", name, roles)
	}
	content, sent := m.Get("content")
	switch content.Kind() {
	case chat.StringKind:
	case chat.NullKind:
		if !sent {
			m = m.With("content", chat.Null)
		}
	case chat.ArrayKind:
		for i, part := range content.Items() {
			if bad := textPart(fmt.Sprintf("%s.content[%d]", name, i), part); bad != nil {
				return m, bad
			}
		}
	default:
		return m, openai.Invalid(name+".content", "%s.content must be a string, null or an array of text parts, not %s", name, content.Kind())
	}
	return m, nil
}

// textPart checks one element of a content array.
func textPart(name string, part chat.Value) *openai.Error {
	if part.Kind() != chat.ObjectKind {
		return openai.Invalid(name, "%s must be an object, not %s", name, part.Kind())
	}
	kind, _ := part.Get("type")
	switch text, _ := kind.Text(); text {
	case "text":
	case "image_url", "input_audio", "file", "video_url", "refusal":
		return openai.Unsupported(name, "%s is of type %s; this model reads text only", name, text)
	default:
		return openai.Invalid(name+".type", "%s.type must be \"text\"", name)
	}
	if text, _ := part.Get("text"); text.Kind() != chat.StringKind {
		return openai.Invalid(name+".text", "%s.text must be a string, not %s", name, text.Kind())
	}
	return nil
}
