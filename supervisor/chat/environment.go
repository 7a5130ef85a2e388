package chat

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controlStructures "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Names in a template's context that a template can't write, or that desugar writes.
const (
	noneName      = "__none"
	undefinedName = "__undefined"
	callName      = "__call"
	itemName      = "__item"
	factorName    = "__factor"
	tickName      = "(tick)"
	budgetName    = "(budget)"
)

// jinjaConfig is how transformers sets Jinja2 up. The newline at the end was dropped by normalizeSource.
func jinjaConfig() *config.Config {
	cfg := config.New()
	cfg.TrimBlocks = true
	cfg.LeftStripBlocks = true
	cfg.KeepTrailingNewline = true
	return cfg
}

// newEnvironment gathers what a template may use. Filters, tests and methods are ours, since gonja's differ from
// Python's; nothing that reads files is there.
func newEnvironment(now func() time.Time) *exec.Environment {
	return &exec.Environment{
		Filters:           exec.NewFilterSet(filters),
		Tests:             exec.NewTestSet(tests),
		ControlStructures: statements,
		Methods:           builtins.Methods, // never called, see desugar
		Context:           exec.NewContext(globals(now)),
	}
}

// failure is how our filters, methods and statements leave gonja: as a panic, because gonja wraps errors in text that
// quotes the template and the conversation. Template.execute recovers it.
type failure struct {
	message string
	raised  bool // by the template itself
}

func fail(format string, args ...any) {
	panic(failure{message: fmt.Sprintf(format, args...)})
}

// budget bounds one rendering, so that a template that loops or grows ends in an error. It is the io.Writer that the
// rendering goes to.
type budget struct {
	out   bytes.Buffer
	limit int // bytes of output
	steps int // left: statements executed, rounds of loops and pieces written
	depth int // of macro calls
}

// Limits of one rendering. A conversation of 10,000 messages takes about 270,000 steps.
const (
	maxSteps      = 2_000_000
	maxMacroDepth = 64
	maxRange      = 100_000 // as in Jinja2's sandbox
	maxString     = 1 << 28 // bytes that one operation on strings may make
)

func checkString(size int) {
	if size > maxString {
		fail("the chat template makes a string of more than %d bytes", maxString)
	}
}

func (b *budget) step() {
	if b.steps--; b.steps < 0 {
		fail("the chat template does not come to an end")
	}
}

func (b *budget) Write(p []byte) (int, error) {
	b.step()
	b.checkSize(b.out.Len() + len(p))
	return b.out.Write(p)
}

func (b *budget) checkSize(size int) {
	if size > b.limit {
		fail("the chat template writes more than %d bytes", b.limit)
	}
}

// checkValue bounds what a variable holds: `set x = x ~ x` doubles it each time.
func (b *budget) checkValue(value any) {
	switch v := value.(type) {
	case *exec.Value:
		b.checkValue(v.Interface())
	case string:
		b.checkSize(len(v))
	case []any:
		b.checkSize(16 * len(v))
	case map[string]any:
		for _, member := range v {
			if _, nested := member.(map[string]any); !nested {
				b.checkValue(member)
			}
		}
	}
}

func budgetOf(e *exec.Environment) *budget {
	b, _ := e.Context.Get(budgetName)
	return b.(*budget)
}

var _ io.Writer = (*budget)(nil)

// statements are gonja's, counted.
var statements = func() *exec.ControlStructureSet {
	set := map[string]parser.ControlStructureParser{"generation": parseGeneration}
	for _, name := range []string{"if", "for", "set", "macro", "raw", "with", "do", "break", "continue", "filter", "call"} {
		parse, ok := builtins.ControlStructures.Get(name)
		if !ok {
			panic("BUG: gonja has no statement " + name)
		}
		set[name] = func(p, args *parser.Parser) (nodes.ControlStructure, error) {
			c := &counted{}
			if name == "set" {
				c.target = args.Current().Val
			}
			inner, err := parse(p, args)
			if err != nil {
				return nil, err
			}
			c.statement = inner.(statement)
			if loop, ok := inner.(*controlStructures.ForControlStructure); ok {
				countRounds(loop)
			}
			return c, nil
		}
	}
	return exec.NewControlStructureSet(set)
}()

// countRounds takes a step for each round of a loop: at the start of its body and in its condition.
func countRounds(loop *controlStructures.ForControlStructure) {
	round := &nodes.ControlStructureBlock{Location: loop.BodyWrapper.Location, ControlStructure: tick{loop.BodyWrapper.Location}}
	loop.BodyWrapper.Nodes = append([]nodes.Node{round}, loop.BodyWrapper.Nodes...)
	if loop.IfCondition != nil {
		loop.IfCondition = &nodes.FilteredExpression{Expression: loop.IfCondition, Filters: []*nodes.FilterCall{{Name: tickName}}}
	}
}

// tick is a statement that does nothing but take a step.
type tick struct{ location *tokens.Token }

// Position is where the loop's body begins.
func (t tick) Position() *tokens.Token { return t.location }

func (t tick) String() string { return "tick" }

// Execute takes the step.
func (t tick) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	budgetOf(r.Environment).step()
	return nil
}

func tickFilter(e *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	budgetOf(e.Environment).step()
	return in
}

type statement interface {
	nodes.ControlStructure
	Execute(r *exec.Renderer, block *nodes.ControlStructureBlock) error
}

// counted takes a step for a statement and keeps what it leaves behind within the budget.
type counted struct {
	statement
	target string // the variable that {% set %} changes, or a member of
}

func (c *counted) Execute(r *exec.Renderer, block *nodes.ControlStructureBlock) error {
	b := budgetOf(r.Environment)
	b.step()
	if err := c.statement.Execute(r, block); err != nil {
		return err
	}
	if macro, ok := c.statement.(*controlStructures.MacroControlStructure); ok {
		boundMacro(r, b, macro.Name)
	}
	if c.target != "" {
		value, _ := r.Environment.Context.Get(c.target)
		b.checkValue(value)
	}
	return nil
}

// boundMacro puts a bound on the depth of calls and the size of the result of the macro just defined: a stack that
// overflows can't be recovered from.
func boundMacro(r *exec.Renderer, b *budget, name string) {
	defined, _ := r.Environment.Context.Get(name)
	macro := defined.(exec.Macro)
	r.Environment.Context.Set(name, exec.Macro(func(params *exec.VarArgs) *exec.Value {
		b.step()
		if b.depth++; b.depth > maxMacroDepth {
			fail("macros of the chat template call each other without end")
		}
		result := macro(params)
		b.depth--
		if result.IsString() {
			b.checkSize(result.Val.Len())
		}
		return result
	}))
}

// generation is {% generation %}, with which transformers marks what the model wrote. It renders its body.
type generation struct{ body *nodes.Wrapper }

// Position is where the body begins.
func (g *generation) Position() *tokens.Token { return g.body.Position() }

func (g *generation) String() string { return "generation" }

func parseGeneration(p, args *parser.Parser) (nodes.ControlStructure, error) {
	body, _, err := p.WrapUntil("endgeneration")
	return &generation{body}, err
}

// Execute renders the body in the scope around it.
func (g *generation) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	budgetOf(r.Environment).step()
	return r.ExecuteIfWrapper(g.body)
}
