package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"lilypad/protocol"
	"lilypad/supervisor/chat"
	"lilypad/supervisor/openai"
)

// template is the chat template of one checkpoint.
type template struct {
	*chat.Template
	added       []protocol.AddedToken
	id          string // what it was made of: checkpoint and numerics
	fingerprint string // changes when the same request may be answered differently
}

// templateOf returns the template of a loaded checkpoint; it is parsed once.
func (s *server) templateOf(info protocol.ModelInfo) (template, error) {
	id := info.CheckpointID + "/" + info.Numerics
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.template.Template != nil && s.template.id == id {
		return s.template, nil
	}
	parsed, err := chat.NewTemplate(chat.TemplateInfo{
		Source: info.ChatTemplate, BOS: info.BOS, EOS: info.EOS, Added: info.Added, AllowControl: s.Control})
	if err != nil {
		return template{}, openai.Unsupported("messages", "This checkpoint can't chat: %v.", err)
	}
	sum := sha256.Sum256([]byte(id + "\x00" + info.ChatTemplate))
	s.template = template{Template: parsed, added: info.Added, id: id, fingerprint: "fp_" + hex.EncodeToString(sum[:6])}
	return s.template, nil
}

// prompt is a conversation in tokens.
type prompt struct {
	tokens      []int32
	checkpoints []int // token counts, ascending
	split       *chat.Split
}

// prompt renders and tokenises a conversation. Errors of the template are the client's.
func (t template) prompt(ctx context.Context, engine protocol.Engine, c chat.Conversation) (p prompt, err error) {
	spans, err := t.Render(c)
	if err != nil {
		return p, templateError(err)
	}
	if p.tokens, err = engine.Tokenize(ctx, spans); err != nil {
		return p, err
	}
	if p.checkpoints, err = t.checkpoints(ctx, engine, c, p.tokens); err != nil {
		return p, err
	}
	p.split = chat.NewSplit(t.added, chat.OpenThink(spans))
	return p, nil
}

// checkpoints returns where states are worth keeping: at the end of the system prompt, which other conversations share, and
// before the generation prompt, where the next turn of this one branches off since templates drop reasoning from
// history. A place counts only if the tokens up to it are the same.
func (t template) checkpoints(ctx context.Context, engine protocol.Engine, c chat.Conversation, tokens []int32) ([]int, error) {
	var at []int
	if role, _ := c.Messages[0].Get("role"); isSystem(role) && len(c.Messages) > 1 {
		probe := c
		probe.Generate = false
		probe.Messages = []chat.Value{c.Messages[0], chat.Object(
			chat.Field{Name: "role", Value: chat.String("user")}, chat.Field{Name: "content", Value: chat.String("\u2022")})}
		n, _, err := t.common(ctx, engine, probe, tokens)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			at = append(at, n)
		}
	}
	c.Generate = false
	n, whole, err := t.common(ctx, engine, c, tokens)
	if err != nil {
		return nil, err
	}
	if whole && n > 0 && n < len(tokens) && (len(at) == 0 || n > at[0]) {
		at = append(at, n)
	}
	return at, nil
}

func isSystem(role chat.Value) bool {
	text, _ := role.Text()
	return text == "system" || text == "developer"
}

// common counts the tokens that c, rendered, has in common with tokens at the start, and tells whether that is all of c. A
// conversation that the template refuses has nothing in common.
func (t template) common(ctx context.Context, engine protocol.Engine, c chat.Conversation, tokens []int32) (n int, whole bool, err error) {
	spans, err := t.Render(c)
	if err != nil {
		return 0, false, nil
	}
	other, err := engine.Tokenize(ctx, spans)
	if err != nil {
		return 0, false, err
	}
	for n < min(len(other), len(tokens)) && other[n] == tokens[n] {
		n++
	}
	return n, n == len(other), nil
}

// templateError names the message that a template refuses.
func templateError(err error) *openai.Error {
	var refused *chat.TemplateError
	if !errors.As(err, &refused) {
		return openai.Invalid("messages", "The conversation can't be rendered: %v.", err)
	}
	param := "messages"
	if refused.Index >= 0 {
		param = fmt.Sprintf("messages[%d]", refused.Index)
	}
	return openai.Invalid(param, "%v", refused)
}
