package msl

import (
	"fmt"

	"lilypad/metal"
)

// Unit is an accepted source.
type Unit struct {
	Kernels   []Kernel // in the order of the source; of a template, its named instantiations
	Constants []FunctionConstant

	source  string
	tokens  stream
	macros  []macro
	decls   []decl
	types   map[string]bool // names that the source declares as types
	derived []derived       // file scope constants computed from function constants
	edits   []edit          // those that depend neither on values of function constants nor on template arguments

	templates []int // declarations of kernel templates
	instances []instance
}

// Kernel is a function that can be dispatched.
type Kernel struct {
	Name         string // as the host says it
	Args         []Arg  // buffers by ascending index
	MaxThreads   int    // [[max_total_threads_per_threadgroup]]; 0 for none
	Threadgroups []int  // indices of dynamic threadgroup arguments, ascending
	Line         int    // where its definition starts

	body     string   // the name of the function in the source
	builtins []string // the attributes that it asks for
}

// Arg is one buffer argument.
type Arg struct {
	Index     int    // of [[buffer(Index)]], 0 to 30
	Space     string // "device" or "constant"
	Const     bool   // the kernel may only read it
	Type      string // of the pointee, as the source spells it
	Reference bool   // T&, not T*; in the C++ text both are pointers
	Optional  bool   // [[function_constant(...)]] may take it away
	Name      string
}

// FunctionConstant is a declaration with [[function_constant(ID)]].
type FunctionConstant struct {
	ID   int
	Name string
	Type string // as the source spells it: "bool", "uint", ...

	decl int // index in Unit.decls
}

// refuse makes the error for a source that Apple's compiler would not take.
func refuse(line int, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	return &metal.CompileError{Line: line, Text: fmt.Sprintf("line %d: error: %s", line, message)}
}

// Translate reads MSL 3.1 source. The error is a *metal.CompileError which names what to write instead; it is nil for a
// source that only clang can still refuse.
func Translate(source string) (*Unit, error) {
	u := &Unit{source: source, types: map[string]bool{}}
	var err error
	if u.tokens, err = scan(source, 0, 1); err != nil {
		return nil, err
	}
	for _, step := range []func() error{u.preprocess, u.declarations, u.tokenRules, u.functionConstants, u.kernels, u.declarationRules, u.rewrite} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// Kernel returns the kernel called name, nil if there is none.
func (u *Unit) Kernel(name string) *Kernel {
	for i := range u.Kernels {
		if u.Kernels[i].Name == name {
			return &u.Kernels[i]
		}
	}
	return nil
}
