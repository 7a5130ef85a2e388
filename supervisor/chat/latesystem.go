package chat

import "strings"

// Agents send system messages in mid-conversation. A template that refuses them would make the request fail, and moving
// them to the front would change the prefix of the prompt, so that no cached state fits any more. Instead such a turn is
// written in its place as the ordinary ChatML system turn that it is: the template renders a user message whose
// content is a placeholder in the tags of a tool's response, by which templates of this family tell that it is not a
// question of the user's (after which earlier reasoning would be dropped), and that whole turn is replaced.

const (
	userTurn   = "<|im_start|>user\n"
	systemTurn = "<|im_start|>system\n"
	turnEnd    = "<|im_end|>\n"
)

// lateSystemTurns returns the indices of system messages after the first message.
func lateSystemTurns(messages []Value) []int {
	var late []int
	for i, m := range messages {
		if role, _ := m.Get("role"); i > 0 && role.text == "system" {
			late = append(late, i)
		}
	}
	return late
}

func (t *Template) lateSystemText(c Conversation, turns []int, m *marker) (string, error) {
	original := c.Messages
	c.Messages = append([]Value(nil), c.Messages...)
	for _, i := range turns {
		c.Messages[i] = message("user", m.placeholder)
	}
	text, err := t.execute(c, m)
	if err != nil {
		return "", err
	}
	pieces := strings.Split(text, userTurn+m.placeholder+turnEnd)
	if len(pieces) != len(turns)+1 {
		c.Messages = original // no ChatML: let the template say what it has to say
		m.restart()
		return t.execute(c, m)
	}
	var out strings.Builder
	for k, piece := range pieces {
		out.WriteString(piece)
		if k == len(turns) {
			break
		}
		content, err := systemText(original[turns[k]], turns[k])
		if err != nil {
			return "", err
		}
		m.enter(turns[k], "content")
		out.WriteString(systemTurn + strip(m.mark(content), nil, true, true) + turnEnd)
	}
	return out.String(), nil
}

// systemText returns the text of a system message at the given index.
func systemText(m Value, index int) (string, error) {
	content, _ := m.Get("content")
	switch content.Kind() {
	case NullKind:
		return "", nil
	case StringKind:
		return content.text, nil
	}
	var text strings.Builder
	for _, part := range content.Items() {
		piece, _ := part.Get("text")
		if piece.Kind() != StringKind {
			return "", messageError(index, "a system message is text only")
		}
		text.WriteString(piece.text)
	}
	return text.String(), nil
}
