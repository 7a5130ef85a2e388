// Package check_test holds the gates that need Go to read Go: which package may import which, and the comments and sizes
// that make the code readable. It looks at the whole module and must not import anything of ours.
package check_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule forbids one direction of imports. Patterns are import paths, or a path and "/..." for it and all below it.
type rule struct {
	name    string
	from    []string // whose imports are judged
	outside []string // not judged although from matches
	to      []string // what they must not import
	except  []string // allowed although to matches
	direct  bool     // judge the import statements, not all that they lead to
	tests   bool     // judge the import statements of test files too
	why     string
}

var rules = []rule{
	{
		name: "supervisor and worker meet only in protocol",
		from: []string{"lilypad/supervisor/..."}, to: []string{"lilypad/worker/...", "lilypad/metal/..."}, tests: true,
		why: "the supervisor must survive whatever the worker's code does, so none of it may run there",
	},
	{
		name: "worker and supervisor meet only in protocol",
		from: []string{"lilypad/worker/..."}, to: []string{"lilypad/supervisor/..."}, tests: true,
		why: "the worker knows nothing of HTTP, sessions or messages, only tokens",
	},
	{
		name: "the supervisor reads no checkpoint",
		from: []string{"lilypad/supervisor/..."}, to: []string{"lilypad/scripts/..."},
		why: "what it needs to know of a checkpoint comes in protocol.ModelInfo",
	},
	{
		name: "protocol stands alone",
		from: []string{"lilypad/protocol/..."}, to: []string{"lilypad/..."}, except: []string{"lilypad/protocol/..."}, tests: true,
		why: "both sides build on it",
	},
	{
		name: "metal stands alone",
		from: []string{"lilypad/metal/..."}, to: []string{"lilypad/..."}, except: []string{"lilypad/metal/..."}, tests: true,
		why: "it is a Metal API for Go and knows nothing of models",
	},
	{
		name: "worker/model stands alone",
		from: []string{"lilypad/worker/model"}, to: []string{"lilypad/..."},
		why: "shapes and byte counts are what everything else in the worker builds on",
	},
	{
		name: "backends know neither text nor requests",
		from: []string{"lilypad/worker/cpu", "lilypad/worker/gpu"}, to: []string{"lilypad/worker/tokenizer", "lilypad/worker/sample", "lilypad/scripts/..."},
		why: "a backend turns tokens into logits, so that another can take its place",
	},
	{
		name: "states and samplers know no backend",
		from: []string{"lilypad/worker/state/...", "lilypad/worker/sample"}, to: []string{"lilypad/worker/cpu", "lilypad/worker/checkpoint", "lilypad/worker/tokenizer"},
		why: "they serve every backend",
	},
	{
		name: "the tokenizer and the checkpoint know no backend",
		from: []string{"lilypad/worker/tokenizer", "lilypad/worker/checkpoint"}, to: []string{"lilypad/worker/cpu", "lilypad/worker/state/...", "lilypad/worker/sample"},
		why: "they are read the same way whatever computes",
	},
	{
		name: "supervisor/openai and supervisor/config stand alone",
		from: []string{"lilypad/supervisor/openai", "lilypad/supervisor/config"}, to: []string{"lilypad/..."}, except: []string{"lilypad/supervisor/openai", "lilypad/supervisor/config"},
		why: "wire types and settings carry no logic",
	},
	{
		name: "text and tokens know no HTTP",
		from: []string{"lilypad/supervisor/chat", "lilypad/supervisor/generate", "lilypad/supervisor/process"}, to: []string{"lilypad/supervisor/api", "lilypad/supervisor/openai"},
		why: "another API than OpenAI's can stand beside it",
	},
	{
		name: "the demo checkpoint stands alone",
		from: []string{"lilypad/scripts/demo-model"}, to: []string{"lilypad/..."},
		why: "it is data",
	},
	{
		name: "no scripted engine in the binary",
		from: []string{"lilypad/cmd/..."}, to: []string{"lilypad/protocol/fake", "lilypad/worker/state/statetest"},
		why: "a person must never be answered from a script",
	},
	{
		name: "gin only under supervisor/api",
		from: []string{"lilypad/..."}, outside: []string{"lilypad/supervisor/api/..."},
		to: []string{"github.com/gin-gonic/gin/..."}, direct: true,
		why: "the router is one package's choice",
	},
	{
		name: "purego only under metal",
		from: []string{"lilypad/..."}, outside: []string{"lilypad/metal/..."},
		to: []string{"github.com/ebitengine/purego/..."}, direct: true, tests: true,
		why: "calls into C are unsafe and stay behind one typed API",
	},
	{
		name: "templates only under supervisor/chat",
		from: []string{"lilypad/..."}, outside: []string{"lilypad/supervisor/chat/..."},
		to: []string{"github.com/nikolalohinski/gonja/..."}, direct: true,
		why: "text becomes messages and messages text in one place",
	},
	{
		name: "command line only under cmd",
		from: []string{"lilypad/..."}, outside: []string{"lilypad/cmd/..."},
		to: []string{"github.com/spf13/cobra/...", "flag"}, direct: true,
		why: "every other package is configured by values",
	},
	{
		name: "the worker serves no HTTP",
		from: []string{"lilypad/worker/..."}, to: []string{"net/http/..."}, direct: true,
		why: "its only connection is the one that protocol makes",
	},
	{
		name: "processes are started by supervisor/process",
		from: []string{"lilypad/..."}, outside: []string{"lilypad/supervisor/process", "lilypad/cmd/...", "lilypad/protocol/fake", "lilypad/metal/sim/..."},
		to: []string{"os/exec"}, direct: true,
		why: "whoever starts a process must also end it (the scripted engine leaves one behind on purpose; the simulator runs a compiler)",
	},
}

// pkg is what a rule looks at of one package.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestImportDirection(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "darwin/arm64"} {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			graph := load(t, platform)
			for _, v := range violations(graph, rules) {
				t.Error(v)
			}
			for _, r := range rules {
				if len(judged(graph, r)) == 0 {
					t.Errorf("rule %q judges no package; has a directory been renamed?", r.name)
				}
			}
			everyRuleBites(t, graph)
		})
	}
}

// everyRuleBites adds one forbidden import to the real graph for each rule, and wants it found.
func everyRuleBites(t *testing.T, graph map[string]pkg) {
	for _, r := range rules {
		from := judged(graph, r)
		if len(from) == 0 {
			continue
		}
		forbidden := strings.TrimSuffix(r.to[0], "/...")
		p := graph[from[0]]
		p.Imports = append(slices.Clone(p.Imports), forbidden)
		planted := map[string]pkg{}
		for k, v := range graph {
			planted[k] = v
		}
		planted[p.ImportPath] = p
		if len(violations(planted, []rule{r})) == 0 {
			t.Errorf("rule %q does not notice that %s imports %s", r.name, p.ImportPath, forbidden)
		}
	}
}

func TestViolations(t *testing.T) {
	graph := map[string]pkg{
		"m/a":       {ImportPath: "m/a", Imports: []string{"m/b"}},
		"m/b":       {ImportPath: "m/b", Imports: []string{"m/c/deep", "fmt"}},
		"m/c/deep":  {ImportPath: "m/c/deep", TestImports: []string{"x/y"}},
		"m/cc":      {ImportPath: "m/cc", XTestImports: []string{"m/a"}},
		"m/a/below": {ImportPath: "m/a/below"},
		"fmt":       {ImportPath: "fmt", Standard: true},
	}
	tests := []struct {
		name string
		rule rule
		want string // what the only violation says, empty for none
	}{
		{"by way of another", rule{from: []string{"m/a"}, to: []string{"m/c/..."}}, "m/a -> m/b -> m/c/deep"},
		{"direct only", rule{from: []string{"m/a"}, to: []string{"m/c/..."}, direct: true}, ""},
		{"direct", rule{from: []string{"m/..."}, to: []string{"m/c/..."}, direct: true}, "m/b -> m/c/deep"},
		{"excepted", rule{from: []string{"m/b"}, to: []string{"m/..."}, except: []string{"m/c/..."}}, ""},
		{"outside", rule{from: []string{"m/..."}, outside: []string{"m/b"}, to: []string{"fmt"}, direct: true}, ""},
		{"standard library", rule{from: []string{"m/a"}, to: []string{"fmt"}}, "m/a -> m/b -> fmt"},
		{"a path is no prefix", rule{from: []string{"m/b"}, to: []string{"m/c"}}, ""},
		{"tests are not judged", rule{from: []string{"m/c/..."}, to: []string{"x/y"}}, ""},
		{"tests are judged", rule{from: []string{"m/c/..."}, to: []string{"x/y"}, tests: true}, "m/c/deep -> x/y"},
		{"external tests are judged", rule{from: []string{"m/cc"}, to: []string{"m/a"}, tests: true}, "m/cc -> m/a"},
		{"a package may import itself", rule{from: []string{"m/a/..."}, to: []string{"m/a"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := violations(graph, []rule{tt.rule})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("got %q, want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want+" ")):
				t.Errorf("got %q, want one that says %q", got, tt.want)
			}
		})
	}
}

// violations lists each forbidden import with the shortest way to it.
func violations(graph map[string]pkg, rules []rule) []string {
	var out []string
	for _, r := range rules {
		bad := func(path string) bool { return matches(path, r.to) && !matches(path, r.except) }
		for _, from := range judged(graph, r) {
			if way := find(graph, from, bad, r); way != nil {
				out = append(out, fmt.Sprintf("%s (%s: %s)", strings.Join(way, " -> "), r.name, r.why))
			}
		}
	}
	return out
}

// judged lists the packages that a rule speaks of, in order.
func judged(graph map[string]pkg, r rule) []string {
	var out []string
	for path := range graph {
		if matches(path, r.from) && !matches(path, r.outside) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// find walks the imports of from breadth first and returns the way to the first bad package, or nil. The imports of
// test files count only for from itself: nobody imports them.
func find(graph map[string]pkg, from string, bad func(string) bool, r rule) []string {
	p := graph[from]
	first := slices.Clone(p.Imports)
	if r.tests {
		first = slices.Concat(first, p.TestImports, p.XTestImports)
	}
	seen := map[string]bool{from: true}
	level := [][]string{}
	for _, to := range first {
		level = append(level, []string{from, to})
	}
	for len(level) > 0 {
		var next [][]string
		for _, way := range level {
			to := way[len(way)-1]
			if seen[to] {
				continue
			}
			seen[to] = true
			if bad(to) {
				return way
			}
			if r.direct {
				continue
			}
			for _, further := range graph[to].Imports {
				next = append(next, append(slices.Clone(way), further))
			}
		}
		level = next
	}
	return nil
}

func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		root, below := strings.CutSuffix(p, "/...")
		return path == root || below && strings.HasPrefix(path, root+"/")
	})
}

// load asks the go command for every package of the module and all that they import, as built for platform.
func load(t *testing.T, platform string) map[string]pkg {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports", "lilypad/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v", platform, err)
	}
	graph := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatalf("go list for %s: %v", platform, err)
		}
		graph[p.ImportPath] = p
	}
}
