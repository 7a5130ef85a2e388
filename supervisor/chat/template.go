package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"

	"lilypad/protocol"
)

// TemplateInfo is what a template needs from the checkpoint (protocol.ModelInfo) and the configuration.
type TemplateInfo struct {
	Source       string // the checkpoint's chat_template.jinja
	BOS, EOS     string // texts of bos_token and eos_token, empty if there is none
	Added        []protocol.AddedToken
	AllowControl bool             // added tokens in what a client sends act as such, as in Hugging Face's libraries
	StrictSystem bool             // a template that refuses late system messages has its way; see latesystem.go
	Now          func() time.Time // the clock of strftime_now; nil for time.Now
}

// Template renders conversations as a checkpoint's own template does in Hugging Face transformers. It is safe for
// concurrent use.
type Template struct {
	info   TemplateInfo
	jinja  *exec.Template
	tokens tokenMatcher
	steps  int // at most in one rendering, see budget

	habits       habits
	placesSystem bool // late system messages are put in place for the template, which refuses them
}

// maxTemplateBytes bounds the recursion of gonja's parser; real templates have about 10 KB.
const maxTemplateBytes = 256 << 10

// NewTemplate parses a template and tries it out. The error is one sentence that says what is wrong with it.
func NewTemplate(info TemplateInfo) (*Template, error) {
	t, err := readTemplate(info)
	if err != nil {
		return nil, err
	}
	if err := t.tryOut(); err != nil {
		return nil, err
	}
	return t, nil
}

func readTemplate(info TemplateInfo) (*Template, error) {
	if strings.TrimSpace(info.Source) == "" {
		return nil, errors.New("the checkpoint has no chat template")
	}
	if len(info.Source) > maxTemplateBytes {
		return nil, fmt.Errorf("the chat template has %d bytes, at most %d", len(info.Source), maxTemplateBytes)
	}
	if info.Now == nil {
		info.Now = time.Now
	}
	t := &Template{info: info, tokens: newTokenMatcher(info.Added), steps: maxSteps}
	var err error
	if t.jinja, err = parseTemplate(info); err != nil {
		return nil, fmt.Errorf("the chat template can't be read: %s", oneLine(err.Error()))
	}
	return t, nil
}

func parseTemplate(info TemplateInfo) (t *exec.Template, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	cfg := jinjaConfig()
	source, err := desugar(normalizeSource(info.Source), cfg)
	if err != nil {
		return nil, err
	}
	loader, err := loaders.NewMemoryLoader(map[string]string{"/chat_template": source})
	if err != nil {
		return nil, err
	}
	t, err = exec.NewTemplate("/chat_template", cfg, loader, newEnvironment(info.Now))
	if err != nil {
		return nil, innermost(err) // the outer ones quote the whole template
	}
	return t, nil
}

// oneLine shortens what gonja says, which may quote the template.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// tryOut renders tiny conversations: one that any template must manage, and some that tell how it takes late system
// messages and tags in contents.
func (t *Template) tryOut() error {
	hello := message("user", "Hello")
	var raised *TemplateError
	if _, err := t.execute(Conversation{Messages: []Value{hello}, Generate: true}, nil); err != nil && !errors.As(err, &raised) {
		return fmt.Errorf("the chat template fails on a plain conversation: %w", err)
	}
	_, err := t.execute(Conversation{Messages: []Value{hello, message("system", "Be brief.")}}, nil)
	t.placesSystem = errors.As(err, &raised) && !t.info.StrictSystem
	t.learn()
	return nil
}

func message(role, content string) Value {
	return Object(Field{"role", String(role)}, Field{"content", String(content)})
}

// Render normalizes and renders c. Joined, the spans are the text that transformers gives; text that the client sent is
// literal where it looks like an added token, everything else is not. The error is a *TemplateError if c is at fault.
func (t *Template) Render(c Conversation) ([]protocol.Span, error) {
	c, err := Normalize(c)
	if err != nil {
		return nil, err
	}
	private := t.private(c)
	if len(private) == 0 {
		return nil, messageError(-1, "the messages use every private-use character of Unicode")
	}
	recorder := t.newMarker(private)
	plain, err := t.text(c, recorder)
	if err != nil {
		return nil, t.blame(c, err, private)
	}
	if plain == "" {
		return nil, nil
	}
	if t.info.AllowControl {
		return []protocol.Span{{Text: plain}}, nil
	}
	return t.spans(c, plain, recorder.seen, private)
}

// private returns characters that neither c nor the template has: one for a placeholder and one for each edge of a token.
func (t *Template) private(c Conversation) []rune {
	n := 1 + utf8.RuneCountInString(t.tokens.edges)
	free := freePrivate(n, func(visit func(string)) {
		visit(t.info.Source)
		eachString(c, visit)
	})
	if len(free) < n {
		return nil
	}
	return free
}

func (t *Template) newMarker(private []rune) *marker {
	return &marker{tokens: &t.tokens, message: -1, placeholder: responseOpen + string(private[0]) + responseClose}
}

// text renders a normalized conversation, with late system messages even if the template refuses them.
func (t *Template) text(c Conversation, m *marker) (string, error) {
	if t.placesSystem {
		if turns := lateSystemTurns(c.Messages); len(turns) > 0 {
			return t.lateSystemText(c, turns, m)
		}
	}
	return t.execute(c, m)
}

// blame finds the message that err, raised by the template, concerns: the first one that makes the template raise the
// same in a conversation of its own with a harmless user message.
func (t *Template) blame(c Conversation, err error, private []rune) error {
	var raised *TemplateError
	if !errors.As(err, &raised) || raised.Index >= 0 {
		return err
	}
	for i, m := range c.Messages[:min(len(c.Messages), 1000)] {
		pair := []Value{m, message("user", "Hello")}
		if i > 0 {
			pair[0], pair[1] = pair[1], pair[0]
		}
		_, err := t.text(Conversation{Messages: pair, Options: c.Options}, t.newMarker(private))
		var same *TemplateError
		if errors.As(err, &same) && same.Message == raised.Message {
			return &TemplateError{Message: raised.Message, Index: i}
		}
	}
	return raised
}
