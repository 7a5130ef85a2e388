package sim

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"lilypad/metal"
	"lilypad/metal/sim/msl"
)

// mslCase is a snippet that the simulator takes or refuses as Apple's compiler does. Where it is stricter, or Apple's
// answer is not known, a comment behind the case says so.
type mslCase struct {
	name string
	// rule is the number of the case in section C of reference/msl-rules.md; 0 where it is not there.
	rule   int
	source string // without the first two lines of every source
	want   string // part of the refusal, "" for a source that is taken
}

// kernel is a kernel with one output and the thread's index.
func kernel(body string) string {
	return kernelOf("device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]", body)
}

func kernelOf(parameters, body string) string {
	return "\nkernel void k(" + parameters + ") {\n" + body + "\n}\n"
}

// accept is what drivers ask before they run a kernel of source: the front end, clang with function constants whose
// values it can't know, and clang with those it runs with.
func (t *toolchain) accept(source string) error {
	unit, err := msl.Translate(source)
	if err != nil {
		return err
	}
	if err := t.checkSyntax(unit.Probe()); err != nil {
		return err
	}
	text, err := unit.C(nil)
	if err != nil {
		return err
	}
	return t.checkSyntax(text)
}

// TestCases runs all cases of reference/msl-rules.md, section C, and of lab/msl-on-linux/cases.py.
func TestCases(t *testing.T) {
	tools, err := newToolchain("")
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	rules, names := map[int]bool{}, map[string]bool{}
	for _, list := range [][]mslCase{spacesCases, signatureCases, languageCases, typesCases, libraryCases} {
		for _, c := range list {
			if names[c.name] {
				t.Errorf("two cases are called %s", c.name)
			}
			rules[c.rule], names[c.name] = true, true
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				c.check(t, tools)
			})
		}
	}
	wg.Wait()
	for rule := 1; rule <= 60; rule++ {
		if !rules[rule] {
			t.Errorf("no case for rule %d", rule)
		}
	}
}

func (c mslCase) check(t *testing.T, tools *toolchain) {
	err := tools.accept("#include <metal_stdlib>\nusing namespace metal;\n" + c.source)
	if c.want == "" {
		if err != nil {
			t.Errorf("%s is refused: %v", c.name, err)
		}
		return
	}
	if err == nil {
		t.Errorf("%s is taken, which should be refused: %q", c.name, c.want)
		return
	}
	var refusal *metal.CompileError
	if !errors.As(err, &refusal) || refusal.Line < 1 {
		t.Errorf("%s: no line in %#v", c.name, err)
	}
	if !strings.Contains(err.Error(), c.want) {
		t.Errorf("%s is refused for another reason than %q: %v", c.name, c.want, err)
	}
}
