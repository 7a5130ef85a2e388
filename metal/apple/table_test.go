package apple

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// source is the package's own text without tests, both platforms'.
func source(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}

// rows are the constants of selectors.go with a prefix, in order: their values are 0, 1, 2, ...
func rows(files map[string]*ast.File, prefix string) []string {
	var list []string
	ast.Inspect(files["selectors.go"], func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, s := range d.Specs {
				if name := s.(*ast.ValueSpec).Names[0].Name; strings.HasPrefix(name, prefix) {
					list = append(list, name)
				}
			}
		}
		return true
	})
	return slices.DeleteFunc(list, func(name string) bool { return strings.HasSuffix(name, "Count") && name != "selCount" })
}

// use is one place that sends a message or calls a function.
type use struct {
	file      string
	in        *ast.FuncDecl
	arguments int // as the method declares them
}

// uses finds, by row, the calls that send it; anything else that mentions a row counts with -1 arguments.
func uses(files map[string]*ast.File, prefix string) map[string][]use {
	found := map[string][]use{}
	for name, file := range files {
		if name == "selectors.go" {
			continue
		}
		for _, d := range file.Decls {
			in, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			counted := map[ast.Node]bool{}
			ast.Inspect(in, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if row, at, n := sent(call); row != "" && strings.HasPrefix(row, prefix) {
						found[row] = append(found[row], use{name, in, n})
						counted[at] = true
					}
				}
				if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, prefix) && !counted[id] {
					found[id.Name] = append(found[id.Name], use{name, in, -1})
				}
				return true
			})
		}
	}
	return found
}

// sent reads a call of send, sendPointers, try or invoke: its row and its number of arguments.
func sent(call *ast.CallExpr) (row string, at ast.Node, arguments int) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil, 0
	}
	first := map[string]int{"send": 1, "sendPointers": 1, "try": 1, "invoke": 0}
	i, ok := first[f.Sel.Name]
	if !ok || len(call.Args) <= i {
		return "", nil, 0
	}
	id, ok := call.Args[i].(*ast.Ident)
	if !ok {
		return "", nil, 0
	}
	n := len(call.Args) - i - 1
	switch {
	case f.Sel.Name == "try":
		n++ // the NSError **
	case id.Name == "selSetBuffers":
		n-- // an NSRange is one argument in two words
	}
	return id.Name, id, n
}

func TestSelectorsAreTheOnesSent(t *testing.T) {
	files := source(t)
	names := rows(files, "sel")
	if len(names) != int(selectorCount) {
		t.Fatalf("found %d rows, want %d", len(names), selectorCount)
	}
	found := uses(files, "sel")
	for i, name := range names {
		row := selectors[i]
		if row.name == "" || strings.Count(row.name, ":") != row.arguments {
			t.Errorf("%s: selector %q with %d arguments", name, row.name, row.arguments)
		}
		if row.class == "" || row.since < 10 {
			t.Errorf("%s: no class or version", name)
		}
		if len(found[name]) == 0 {
			t.Errorf("%s is in the table, but nothing sends it", name)
		}
		for _, u := range found[name] {
			if u.arguments >= 0 && u.arguments != row.arguments {
				t.Errorf("%s: %s sends %s with %d arguments, want %d", u.file, u.in.Name.Name, row.name, u.arguments, row.arguments)
			}
			if row.since > floor && !guarded(u.in) {
				t.Errorf("%s: %s sends %s, which came with macOS %v, without asking", u.file, u.in.Name.Name, row.name, row.since)
			}
		}
		delete(found, name)
	}
	for name := range found {
		if name != "selectors" && name != "selectorCount" && name != "selector" {
			t.Errorf("%s is sent, but not in the table", name)
		}
	}
}

// guarded tells whether a function asks for what is newer than the floor: by respondsToSelector:, or as a method of
// *residency, which is nil where the system has none.
func guarded(in *ast.FuncDecl) bool {
	if in.Recv != nil {
		if p, ok := in.Recv.List[0].Type.(*ast.StarExpr); ok && p.X.(*ast.Ident).Name == "residency" {
			return true
		}
	}
	asks := false
	ast.Inspect(in, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "responds" {
			asks = true
		}
		return true
	})
	return asks
}

func TestFunctionsAreTheOnesCalled(t *testing.T) {
	files := source(t)
	names := rows(files, "fn")
	if len(names) != int(functionCount) {
		t.Fatalf("found %d rows, want %d", len(names), functionCount)
	}
	found := uses(files, "fn")
	for i, name := range names {
		if functions[i].name == "" || len(found[name]) == 0 {
			t.Errorf("%s (%q) has no name, or nothing calls it", name, functions[i].name)
		}
		for _, u := range found[name] {
			if u.arguments >= 0 && u.arguments != functions[i].arguments {
				t.Errorf("%s: %s calls %s with %d arguments, want %d", u.file, u.in.Name.Name, functions[i].name, u.arguments, functions[i].arguments)
			}
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range selectors {
		key := s.class + " " + s.name
		if seen[key] {
			t.Errorf("%s twice", key)
		}
		seen[key] = true
	}
	for _, c := range classes {
		if seen[c.name] || c.name == "" {
			t.Errorf("class %q twice or empty", c.name)
		}
		seen[c.name] = true
	}
}

// Both file sets declare the same exported names, so that callers compile everywhere.
func TestExportedNamesOnBothPlatforms(t *testing.T) {
	mac, other := map[string]bool{}, map[string]bool{}
	for name, file := range source(t) {
		for _, d := range exported(file) {
			mac[d] = mac[d] || name != "load_other.go"
			other[d] = other[d] || !strings.HasSuffix(name, "_darwin_arm64.go")
		}
	}
	if !mac["Open"] {
		t.Error("Open is missing")
	}
	if !reflect.DeepEqual(mac, other) {
		t.Errorf("darwin/arm64 exports %v, others %v", mac, other)
	}
}

func exported(file *ast.File) []string {
	var list []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				list = append(list, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						list = append(list, s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.IsExported() {
							list = append(list, n.Name)
						}
					}
				}
			}
		}
	}
	return list
}
