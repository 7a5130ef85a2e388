package msl

import (
	"os"
	"strings"
	"testing"

	"lilypad/metal"
)

const head = "#include <metal_stdlib>\nusing namespace metal;\n"

const every = head + `#define FC 2
constant uint N [[function_constant(FC + 1)]];
constant bool B [[function_constant(0)]];
constant uint N2 = N * 2;
constant bool BD = is_function_constant_defined(B);
struct Params { uint n; float s; static constexpr constant int K = 3; };
inline float helper(device const float* x, uint i) { return x[i] * float(1.5bf); }
template<typename T, int M = 2>
kernel void kk(device T* o [[buffer(1)]], constant Params& p [[buffer(0)]],
   ushort2 i [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float s = 0.0f;
  if (B) o[i.x] = T(p.s + s + N2 + lane);
}
template [[host_name("kk_f")]] kernel void kk<float>(device float*, constant Params&, ushort2, ushort);
template [[host_name("kk_u")]] [[max_total_threads_per_threadgroup(64)]] kernel void kk<uint, 3>(device uint*, constant Params&, ushort2, ushort);
[[kernel]] void z(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i] = helper(o, 0); }
`

func TestTranslate(t *testing.T) {
	u, err := Translate(every)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Kernels) != 3 {
		t.Fatalf("kernels %+v", u.Kernels)
	}
	k := u.Kernel("kk_u")
	want := []Arg{{Index: 0, Space: "constant", Const: true, Type: "Params", Reference: true, Name: "p"}, {Index: 1, Space: "device", Type: "uint", Name: "o"}}
	if k == nil || k.MaxThreads != 64 || len(k.Args) != 2 || k.Args[0] != want[0] || k.Args[1] != want[1] {
		t.Errorf("kk_u is %+v", k)
	}
	if uses := u.Uses("kk_f"); len(uses) != 2 || uses[0].Name != "B" || uses[1].Name != "N" || uses[1].ID != 3 {
		t.Errorf("kk_f uses %+v", uses)
	}
	if uses := u.Uses("z"); len(uses) != 0 {
		t.Errorf("z uses %+v", uses)
	}
	c, err := u.C([]metal.Constant{metal.Uint(3, 5)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"static __constant constexpr uint N = 0x5u;",
		"static __constant constexpr bool B = bool(0);",
		"__constant bool BD = false;",
		"static constexpr __constant int K = 3;",
		"float(bfloat(1.5f))",
		"__kernel void kk_u(__SIM_CONSTANTS(p, Params), device uint* __restrict o) {",
		"ushort2 i = __sim_threadgroup_position_in_grid<ushort2>();",
		"using T = uint; constexpr int M = 3;",
		"threadgroup float s ; s = 0.0f;",
		"__kernel void z(device float* __restrict o) { uint i = __sim_thread_index_in_threadgroup<uint>(); o[i]",
	} {
		if !strings.Contains(c, want) {
			t.Errorf("no %q in\n%s", want, c)
		}
	}
	probe := u.Probe()
	for _, want := range []string{"extern __constant uint N;", "extern __constant uint N2;", "auto x = N * 2;", "auto x = true;"} {
		if !strings.Contains(strings.Join(strings.Fields(probe), " "), want) {
			t.Errorf("no %q in\n%s", want, probe)
		}
	}
}

// TestLines checks that clang's messages name lines of the MSL source.
func TestLines(t *testing.T) {
	u, err := Translate(every)
	if err != nil {
		t.Fatal(err)
	}
	c, err := u.C(nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(every, "\n")
	for i, l := range linesOf(t, c) {
		if strings.HasPrefix(l, "inline") || strings.HasPrefix(l, "struct") || strings.HasPrefix(l, "__kernel void z") {
			got := strings.Fields(strings.TrimPrefix(lines[i-1], "[[kernel]] "))
			if want := strings.Fields(strings.TrimPrefix(l, "__kernel ")); got[1][:1] != want[1][:1] {
				t.Errorf("line %d is %q, in C++ %q", i, lines[i-1], l)
			}
		}
	}
}

// linesOf numbers lines as #line says.
func linesOf(t *testing.T, c string) map[int]string {
	out := map[int]string{}
	n := 0
	_, c, _ = strings.Cut(c, "#endif\n")
	for _, l := range strings.Split(c, "\n") {
		if rest, ok := strings.CutPrefix(l, "#line "); ok {
			n = 0
			for _, d := range strings.Fields(rest)[0] {
				n = n*10 + int(d-'0')
			}
			continue
		}
		out[n] = l
		n++
	}
	if len(out) < 10 {
		t.Fatalf("only %d lines in\n%s", len(out), c)
	}
	return out
}

func TestCheck(t *testing.T) {
	u, err := Translate(every)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kernel    string
		constants []metal.Constant
		want      string
	}{
		"all given":       {"kk_f", []metal.Constant{metal.Uint(3, 1), metal.Bool(0, true)}, ""},
		"optional absent": {"kk_f", []metal.Constant{metal.Uint(3, 1)}, ""},
		"missing":         {"kk_f", nil, "has no value"},
		"not used":        {"z", nil, ""},
		"type":            {"kk_f", []metal.Constant{metal.Int(3, 1)}, "is uint, not int"},
		"unknown id":      {"kk_f", []metal.Constant{metal.Uint(3, 1), metal.Uint(4, 1)}, "no function constant 4"},
		"unknown kernel":  {"kk", nil, "no kernel"},
	} {
		err := u.Check(c.kernel, c.constants)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRepository translates every kernel of the module.
func TestRepository(t *testing.T) {
	dir := "../../kernels"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	common, err := os.ReadFile(dir + "/common.metal")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".metal") {
			continue
		}
		b, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		source := string(b)
		if e.Name() != "common.metal" { // the common part stands in front
			source = string(common) + source
		}
		if _, err := Translate(source); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
}
