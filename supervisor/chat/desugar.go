package chat

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// desugar rewrites the expressions of a template into the part of Jinja2's grammar that gonja has:
//
//	a if c else b     ->  [(c) and [a] or [b]][0][0]     lazy, since a list with an element is true
//	(a).method()      ->  [a][0].method()                gonja calls no method of a parenthesis
//	none, None        ->  __none                         gonja takes its own for undefined
//	{}                ->  dict()                         gonja takes a literal {} for true
//
// and finds what gonja would find only when it gets there: filters, tests and statements that don't exist. Text outside
// of {{ }} and {% %} and the numbering of lines stay as they are. The source must have gone through normalizeSource.
func desugar(source string, cfg *config.Config) (string, error) {
	d := desugarer{source: source}
	stream := tokens.LexAll(source, cfg)
	for !stream.End() {
		d.tokens = append(d.tokens, stream.Next())
	}
	last := stream.Current()
	if last.Type == tokens.Error {
		return "", fmt.Errorf("line %d: unreadable expression", 1+strings.Count(source[:min(last.Pos, len(source))], "\n"))
	}
	d.tokens = append(d.tokens, &tokens.Token{Type: tokens.EOF, Pos: len(source)})
	if err := d.template(); err != nil {
		return "", err
	}
	return d.out.String(), nil
}

// normalizeSource does what Jinja2 does before reading a template: one kind of newline, and not the last one.
func normalizeSource(source string) string {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	return strings.TrimSuffix(source, "\n")
}

type desugarer struct {
	source string
	tokens []*tokens.Token
	at     int
	out    strings.Builder
}

func (d *desugarer) peek() *tokens.Token { return d.tokens[d.at] }

// next consumes a token and returns its source with the space after it.
func (d *desugarer) next() (*tokens.Token, string) {
	tok := d.tokens[d.at]
	if tok.Type == tokens.EOF {
		return tok, ""
	}
	d.at++
	return tok, d.source[tok.Pos:d.tokens[d.at].Pos]
}

func (d *desugarer) template() error {
	if d.tokens[0].Pos > 0 {
		d.out.WriteString(d.source[:d.tokens[0].Pos])
	}
	for d.peek().Type != tokens.EOF {
		tok, raw := d.next()
		d.out.WriteString(raw)
		var err error
		switch tok.Type {
		case tokens.VariableBegin:
			err = d.region(tokens.VariableEnd, true)
		case tokens.BlockBegin:
			err = d.statement()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// statement goes on after {%.
func (d *desugarer) statement() error {
	tok, raw := d.next()
	d.out.WriteString(raw)
	if tok.Type != tokens.Name || !statementWords[tok.Val] {
		return fmt.Errorf("line %d: {%% %s %%} is not supported", tok.Line, tok.Val)
	}
	return d.region(tokens.BlockEnd, tok.Val == "set")
}

// region writes the expressions up to the token that ends the tag. Only where conditional is true is an outer `if` part
// of an expression; in {% for x in y if z %} it is not.
func (d *desugarer) region(end tokens.Type, conditional bool) error {
	body, _, err := d.elements(end, conditional)
	d.out.WriteString(body)
	return err
}

// elements rewrites expressions separated by commas, colons or equals signs up to a token of type end, which it leaves.
// single is false unless there is just one, without a separator.
func (d *desugarer) elements(end tokens.Type, conditional bool) (body string, single bool, err error) {
	var out strings.Builder
	var parts []part
	single = true
	flush := func() {
		out.WriteString(join(parts, conditional))
		parts = parts[:0]
	}
	for {
		tok := d.peek()
		switch tok.Type {
		case end:
			single = single && len(parts) > 0
			flush()
			return out.String(), single, nil
		case tokens.EOF, tokens.BlockEnd, tokens.VariableEnd:
			return "", false, fmt.Errorf("line %d: an expression ends too early", tok.Line)
		case tokens.Comma, tokens.Colon, tokens.Assign:
			flush()
			single = false
			_, raw := d.next()
			out.WriteString(raw)
		default:
			p, err := d.part()
			if err != nil {
				return "", false, err
			}
			parts = append(parts, p)
		}
	}
}

// part is a token, or a bracket with all that is in it, rewritten.
type part struct {
	text string
	word string // of a name: "if" and "else" are what join looks for
}

func (d *desugarer) part() (part, error) {
	before := d.before()
	tok, raw := d.next()
	switch tok.Type {
	case tokens.LeftParenthesis:
		return d.parenthesis(tok, raw, callable(before))
	case tokens.LeftBracket:
		return d.bracket(raw, tokens.RightBracket)
	case tokens.LeftBrace:
		if d.peek().Type == tokens.RightBrace {
			_, closing := d.next()
			return part{text: "dict()" + space(closing)}, nil
		}
		return d.bracket(raw, tokens.RightBrace)
	case tokens.Not: // gonja reads `not[` as a name
		return part{text: "not " + raw[len("not"):]}, nil
	case tokens.Name:
		return d.name(tok, raw, before)
	}
	return part{text: raw}, nil
}

// before returns the type of the last token and of the one before it.
func (d *desugarer) before() [2]*tokens.Token {
	return [2]*tokens.Token{d.tokens[max(0, d.at-1)], d.tokens[max(0, d.at-2)]}
}

// callable tells whether a parenthesis after these tokens holds arguments.
func callable(before [2]*tokens.Token) bool {
	switch before[0].Type {
	case tokens.RightParenthesis, tokens.RightBracket:
		return true
	case tokens.Name:
		switch before[0].Val {
		case "if", "elif", "else", "call":
			return before[1].Type == tokens.Dot
		}
		return true
	}
	return false
}

func (d *desugarer) name(tok *tokens.Token, raw string, before [2]*tokens.Token) (part, error) {
	p := part{text: raw, word: tok.Val}
	isTest := before[0].Type == tokens.Is || before[0].Type == tokens.Not && before[1].Type == tokens.Is
	switch {
	case before[0].Type == tokens.Dot:
		p.word = ""
	case before[0].Type == tokens.Pipe:
		if _, ok := filters[tok.Val]; !ok {
			return p, fmt.Errorf("line %d: the filter %q is not supported", tok.Line, tok.Val)
		}
	case isTest:
		if _, ok := tests[tok.Val]; !ok {
			return p, fmt.Errorf("line %d: the test %q is not supported", tok.Line, tok.Val)
		}
	case tok.Val == "none" || tok.Val == "None":
		p.text = noneName + raw[len(tok.Val):]
	case tok.Val == "recursive":
		return p, fmt.Errorf("line %d: recursive loops are not supported", tok.Line)
	}
	return p, nil
}

func (d *desugarer) parenthesis(open *tokens.Token, raw string, call bool) (part, error) {
	body, single, err := d.elements(tokens.RightParenthesis, true)
	if err != nil {
		return part{}, err
	}
	_, closing := d.next()
	if call || !single {
		return part{text: raw + body + closing}, nil
	}
	return part{text: "[" + raw[1:] + body + "][0]" + space(closing)}, nil
}

func (d *desugarer) bracket(raw string, end tokens.Type) (part, error) {
	body, _, err := d.elements(end, true)
	if err != nil {
		return part{}, err
	}
	_, closing := d.next()
	return part{text: raw + body + closing}, nil
}

// join writes one expression.
func join(parts []part, conditional bool) string {
	split := func(word string) int {
		for i, p := range parts {
			if p.word == word {
				return i
			}
		}
		return -1
	}
	at := split("if")
	if at < 0 || !conditional {
		var out strings.Builder
		for _, p := range parts {
			out.WriteString(p.text)
		}
		return out.String()
	}
	value, rest := parts[:at], parts[at+1:]
	parts = rest
	condition, alternative := rest, undefinedName
	if at := split("else"); at >= 0 {
		condition, alternative = rest[:at], join(rest[at+1:], true)
	}
	return "[(" + join(condition, false) + ") and [" + join(value, false) + "] or [" + alternative + "]][0][0] "
}

// space returns what follows the one character of a closing bracket, so that lines keep their numbers.
func space(closing string) string { return closing[1:] }

var statementWords = wordSet("if elif else endif for endfor set endset macro endmacro raw endraw with endwith " +
	"do break continue filter endfilter call endcall generation endgeneration")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}
