package chat

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// errorLine finds the line that gonja names in the innermost of its messages, which may quote the conversation.
var errorLine = regexp.MustCompile(`at line (\d+)`)

// execute runs the template on a normalized conversation. What the template raises is a *TemplateError without index.
func (t *Template) execute(c Conversation, m *marker) (text string, err error) {
	b := &budget{steps: t.steps, limit: outputLimit(c)}
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		f, ours := r.(failure)
		switch {
		case ours && f.raised:
			err = &TemplateError{Message: f.message, Index: -1}
		case ours:
			err = errors.New(f.message)
		default:
			err = fmt.Errorf("the chat template fails: %T in gonja", r)
		}
	}()
	if err := t.jinja.Execute(b, t.context(c, m, b)); err != nil {
		where := "the chat template fails"
		if lines := errorLine.FindAllStringSubmatch(err.Error(), -1); lines != nil {
			where += " at line " + lines[len(lines)-1][1]
		}
		return "", errors.New(where)
	}
	return b.out.String(), nil
}

// outputLimit is far above what a template adds to a conversation.
func outputLimit(c Conversation) int {
	size := 0
	for _, list := range [][]Value{c.Messages, c.Tools} {
		for _, v := range list {
			size += sizeOf(v)
		}
	}
	return 1<<20 + 8*size
}

func sizeOf(v Value) int {
	size := 64 + len(v.text)
	for _, item := range v.items {
		size += sizeOf(item)
	}
	for _, f := range v.fields {
		size += len(f.Name) + sizeOf(f.Value)
	}
	return size
}

// context holds the template's variables. Every string of the client's goes through m, in the same order each time.
func (t *Template) context(c Conversation, m *marker, b *budget) *exec.Context {
	text := m.mark
	variables := map[string]any{
		budgetName:              b,
		"messages":              templateMessages(c.Messages, m),
		"tools":                 none,
		"documents":             none,
		"add_generation_prompt": c.Generate,
	}
	if c.Tools != nil {
		variables["tools"] = templateList(c.Tools, text)
	}
	for _, name := range optionNames(c) {
		variables[name] = toTemplate(c.Options[name], text)
	}
	if t.info.BOS != "" {
		variables["bos_token"] = t.info.BOS
	}
	if t.info.EOS != "" {
		variables["eos_token"] = t.info.EOS
	}
	return exec.NewContext(variables)
}

func templateMessages(messages []Value, m *marker) []any {
	list := make([]any, len(messages))
	for i, message := range messages {
		pairs := make([]*exec.Pair, len(message.fields))
		for k, f := range message.fields {
			m.enter(i, f.Name)
			pairs[k] = &exec.Pair{Key: exec.AsValue(m.mark(f.Name)), Value: toTemplate(f.Value, m.mark)}
		}
		list[i] = &exec.Dict{Pairs: pairs}
	}
	m.enter(-1, "")
	return list
}
