package chat

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// desugar rewrites the expressions of a template into the part of Jinja2 that gonja has and gets right:
//
//	a if c else b     ->  [(c) and [a] or [b]][0][0]     gonja has no conditional inside of an expression; this one is
//	                                                     lazy, since a list with an element is true
//	x.f(a)            ->  __call(x, "f", a)              methods are ours, and gonja evaluates x twice
//	x[i]              ->  __item(x, i)                   gonja counts bytes and finds no [-1] in a list of one
//	x * y             ->  __factor(x) * y                gonja repeats a string without bound
//	none, None        ->  __none                         gonja takes its own for undefined
//	{}                ->  dict()                         gonja takes a literal {} for true
//
// It also finds what gonja would find only when it gets there: filters, tests and statements that don't exist. Text
// outside of {{ }} and {% %} and the numbering of lines stay as they are. The source must have gone through
// normalizeSource.
func desugar(source string, cfg *config.Config) (string, error) {
	if err := checkCharacters(source); err != nil {
		return "", err
	}
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
// separated tells whether there was a separator.
func (d *desugarer) elements(end tokens.Type, conditional bool) (body string, separated bool, err error) {
	var out strings.Builder
	var e expression
	flush := func() {
		out.WriteString(join(e.parts, conditional))
		e = expression{}
	}
	for {
		tok := d.peek()
		switch tok.Type {
		case end:
			flush()
			return out.String(), separated, nil
		case tokens.EOF, tokens.BlockEnd, tokens.VariableEnd:
			return "", false, fmt.Errorf("line %d: an expression ends too early", tok.Line)
		case tokens.Comma, tokens.Colon, tokens.Assign:
			flush()
			separated = true
			_, raw := d.next()
			out.WriteString(raw)
		default:
			if err := d.part(&e); err != nil {
				return "", false, err
			}
		}
	}
}

// part is a token, or a bracket with all that is in it, rewritten.
type part struct {
	text string
	word string // of a name: "if" and "else" are what join looks for
}

// expression is the beginning of an expression. From operand on its parts are the operand being read, such as x.y(z).
type expression struct {
	parts   []part
	operand int
}

func (e *expression) begin(p part) {
	e.operand = len(e.parts)
	e.parts = append(e.parts, p)
}

func (e *expression) extend(p part) { e.parts = append(e.parts, p) }

// wrap puts the operand, without its last n parts, into a call of one of our functions.
func (e *expression) wrap(function string, n int, arguments, space string) {
	receiver := join(e.parts[e.operand:len(e.parts)-n], false)
	e.parts = append(e.parts[:e.operand], part{text: function + "(" + receiver + arguments + ")" + space})
}

func (d *desugarer) part(e *expression) error {
	before := d.before()
	tok, raw := d.next()
	switch tok.Type {
	case tokens.LeftParenthesis, tokens.LeftBracket, tokens.LeftBrace:
		return d.bracket(e, tok, raw, isOperand(before))
	case tokens.Dot, tokens.Pipe:
		e.extend(part{text: raw})
	case tokens.Multiply:
		e.wrap(factorName, 0, "", " ")
		e.begin(part{text: raw})
	case tokens.Name:
		return d.name(e, tok, raw, before)
	default:
		e.begin(part{text: raw})
	}
	return nil
}

// before returns the last token and the one before it.
func (d *desugarer) before() [2]*tokens.Token {
	return [2]*tokens.Token{d.tokens[max(0, d.at-1)], d.tokens[max(0, d.at-2)]}
}

// isOperand tells whether a bracket after these tokens is a call or a subscript.
func isOperand(before [2]*tokens.Token) bool {
	switch before[0].Type {
	case tokens.RightParenthesis, tokens.RightBracket, tokens.RightBrace, tokens.String:
		return true
	case tokens.Name:
		switch before[0].Val {
		case "if", "elif", "else", "call", "do", "in", "is", "and", "or", "not":
			return before[1].Type == tokens.Dot
		}
		return true
	}
	return false
}

func (d *desugarer) name(e *expression, tok *tokens.Token, raw string, before [2]*tokens.Token) error {
	p := part{text: raw, word: tok.Val}
	isTest := before[0].Type == tokens.Is || before[0].Type == tokens.Not && before[1].Type == tokens.Is
	switch {
	case before[0].Type == tokens.Dot:
		e.extend(part{text: raw})
		return nil
	case before[0].Type == tokens.Pipe:
		if _, ok := filters[tok.Val]; !ok {
			return fmt.Errorf("line %d: the filter %q is not supported", tok.Line, tok.Val)
		}
		e.extend(part{text: raw})
		return nil
	case isTest:
		if _, ok := tests[tok.Val]; !ok {
			return fmt.Errorf("line %d: the test %q is not supported", tok.Line, tok.Val)
		}
	case tok.Val == "none" || tok.Val == "None":
		p.text = noneName + raw[len(tok.Val):]
	case tok.Val == "recursive":
		return fmt.Errorf("line %d: recursive loops are not supported", tok.Line)
	}
	e.begin(p)
	return nil
}

var closing = map[tokens.Type]tokens.Type{
	tokens.LeftParenthesis: tokens.RightParenthesis,
	tokens.LeftBracket:     tokens.RightBracket,
	tokens.LeftBrace:       tokens.RightBrace,
}

// bracket goes on after an opening bracket, which follows an operand or stands on its own.
func (d *desugarer) bracket(e *expression, open *tokens.Token, raw string, follows bool) error {
	body, separated, err := d.elements(closing[open.Type], true)
	if err != nil {
		return err
	}
	_, end := d.next()
	space := end[1:] // so that lines keep their numbers
	n := len(e.parts)
	isMethod := n-e.operand > 2 && strings.HasPrefix(e.parts[n-2].text, ".")
	switch {
	case follows && open.Type == tokens.LeftParenthesis && isMethod:
		arguments := fmt.Sprintf(", %q", strings.TrimSpace(e.parts[n-1].text))
		if strings.TrimSpace(body) != "" {
			arguments += ", " + body
		}
		e.wrap(callName, 2, arguments, space)
	case follows && open.Type == tokens.LeftBracket && !separated:
		e.wrap(itemName, 0, ", "+body, space)
	case follows:
		e.extend(part{text: raw + body + end})
	case open.Type == tokens.LeftBrace && strings.TrimSpace(body) == "":
		e.begin(part{text: "dict()" + space})
	default:
		e.begin(part{text: raw + body + end})
	}
	return nil
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

var statementWords = wordSet("if elif else endif for endfor set endset macro endmacro raw endraw with endwith " +
	"do break continue filter endfilter call endcall generation endgeneration")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}
