package msl

import (
	"errors"
	"strings"
	"testing"

	"lilypad/metal"
)

// The cases that need clang too are in package sim. These are of the front end alone.
var snippets = []struct {
	name, source string
	want         string // part of the refusal, "" for a source that is taken
	line         int    // of the refusal, behind the two lines of head
}{
	// What real kernels write must not look like an error.
	{"pointers", "inline float f(const device float* const x, threadgroup float (&y)[4], thread const float& z) { return x[0] + y[0] + z; }", "", 0},
	{"pointer expressions", "inline float f(float a, float b, device float* x) { float c = a * b; c = (a) * b + *x; bool d = (a > b) & (b > c); return d ? c * (a) : -c; }", "", 0},
	{"casts", "inline uint f(device const uchar* w) { device const uint4* p = (device const uint4*)(w + 4); return p[0].x + *reinterpret_cast<device const uint*>(w); }", "", 0},
	{"two levels", "inline float f(device const float* thread* p) { device const float* constant* q = 0; return (*p)[0] + float(q == 0); }", "", 0},
	{"function pointer", "typedef float (*unary)(float);\ninline float f(float (*g)(float), float x) { return g(x); }", "", 0},
	{"array by reference in a template", "template <int N> inline void f(thread float (&a)[N], uint i) { a[i & uint(N - 1)] = 0; }", "", 0},
	{"operators of a record", "struct S { float a; S operator*(S o) const { return {a * o.a}; } S operator&(S o) const { return o; } };", "", 0},
	{"constructor", "struct S { float a, b; S(float x) : a(x), b{x} {} };\ninline float f(float x) { S s(x); return s.a; }", "", 0},
	{"members called lo and hi", "struct Pair { float lo, hi; };\ninline float f(Pair p) { return p.lo + p.hi; }", "", 0},
	{"select by vectors", "inline float4 f(float4 a, float4 b) { bool4 c = a < b; return select(a, b, a < b || c); }", "", 0},
	{"conditions on components", "inline float f(float4 a, float4 b) { int m = a.x < b.x; return any(a < b) ? a.x : float(m); }", "", 0},
	{"swizzles", "inline float f(float4 a) { return a.xyz.y + a.rgba.r + a[2]; }", "", 0},
	{"casts of one value", "inline float4 f(float a) { return (float4)(a) + (float4)(a, a).x; }", "by the comma operator", 3},
	{"constants in a record", "struct S { static constexpr constant int N = 4; enum { M = 2 }; float a[N]; };\nconstant constexpr uint K = 3;", "", 0},
	{"nested templates", "template <typename T, int N> struct V { T a[N]; };\ninline V<vec<float, 2>, 3> f(V<vec<float, 2>, 3> v) { return v; }", "", 0},
	{"arrays are no lambdas", "inline float f(uint i) { float a[2] = {1, 2}; return (a)[i] + (i > 1 ? a[0] : a[1]); }", "", 0},
	{"macro", "#define EACH(x) \\\n  do { x; } while (0)\ninline float f(float a) { EACH(a = 1); return a; }", "", 0},
	{"prototype", "inline float f(device float* x, uint n);\nfloat f(device float* x, uint n) { return x[n]; }", "", 0},
	{"pragmas", "inline float f(device float* x) { float s = 0;\n#pragma unroll\nfor (uint i = 0; i < 4; ++i) s += x[i];\nreturn s; }", "", 0},
	{"local called step", "struct Step { uint n; };\ninline uint f(constant Step& step) { return step.n; }", "", 0},
	{"call of a method in its space", "struct S { float v; float get() const { return v; } float get() const device { return v; } };\ninline float f(device S* s) { return s[1].get() + s->get(); }", "", 0},
	{"local copy", "struct S { float v; float get() const { return v; } };\ninline float f(device S* s) { S t = *s; return t.get(); }", "", 0},

	// Refusals.
	{"pointer in a macro", "#define P (float*)x\n", "address spaces: write device", 3},
	{"cast", "inline float f(device float* x) {\n return *(float*)x; }", "address spaces: write device", 4},
	{"template argument", "template <class T> inline T g(T x) { return x; }\ninline float f(device float* x) { return *g<float*>(x); }", "address spaces: write device", 4},
	{"result", "inline float* f(device float* x) { return x; }", "the result of f", 3},
	{"array parameter", "inline float f(float a[4]) { return a[0]; }", "address spaces: write device", 3},
	{"member pointer", "struct S { float* p; };", "address spaces: write device", 3},
	{"alias", "using P = float*;", "address spaces: write device", 3},
	{"typedef", "typedef const float& R;", "address spaces: write device", 3},
	{"loop over references", "inline void f() { for (auto& x : y) {} }", "address spaces: write device", 3},
	{"static member", "struct S { static constexpr int N = 4; };", "in constant memory", 3},
	{"global named as a function of metal", "inline float mix(float a) { return a; }", "meets metal::mix", 3},
	{"derived constexpr", "constant uint N [[function_constant(0)]];\nconstant constexpr uint M = N * 2;", "no constant expression", 4},
	{"constant of a record", "struct S { int a; };\nconstant S s [[function_constant(0)]];", "scalar or vector type", 4},
	{"constant's id", "constant uint N [[function_constant(65536)]];", "from 0 to 65535", 3},
	{"method in a macro's space", "struct S { float v; float get() const { return v; } };\ninline float f(constant S& s) { return s.get(); }", "serves thread objects only", 4},
	{"two host names", "template <class T> kernel void k(device T* o [[buffer(0)]]) {}\ntemplate [[host_name(\"a\")]] kernel void k<int>(device int*);\ntemplate [[host_name(\"a\")]] kernel void k<uint>(device uint*);", "exists already in line 4", 5},
	{"no host name", "template <class T> kernel void k(device T* o [[buffer(0)]]) {}\ntemplate kernel void k<int>(device int*);", "without [[host_name", 4},
	{"kernel in a namespace", "namespace a { kernel void k(device float* o [[buffer(0)]]) {} }", "only as a::k", 3},
	{"limit of threads", "[[max_total_threads_per_threadgroup(2048)]] kernel void k(device float* o [[buffer(0)]]) {}", "from 1 to 1024", 3},
	{"position and extent", "kernel void k(device float* o [[buffer(0)]], uint2 a [[thread_position_in_grid]], ushort2 b [[threads_per_grid]]) {}", "must have one type", 3},
	{"attribute twice", "kernel void k(device float* o [[buffer(0)]], uint2 a [[thread_position_in_grid]], uint2 b [[thread_position_in_grid]]) {}", "asks twice", 3},
	{"unknown attribute", "kernel void k(device float* o [[buffer(0)]], uint a [[thread_number]]) {}", "unknown attribute thread_number", 3},
	{"buffer in threadgroup memory", "kernel void k(threadgroup float* o [[buffer(0)]]) {}", "a buffer is device or constant", 3},
	{"texture", "kernel void k(device float* o [[buffer(0)]], uint t [[texture(0)]]) {}", "no textures", 3},
	{"threadgroup array with values", "kernel void k(device float* o [[buffer(0)]]) {\nthreadgroup float s[2] = {1, 2};\n}", "only one scalar", 4},
	{"threadgroup bool", "kernel void k(device float* o [[buffer(0)]]) {\nthreadgroup bool b[2];\n}", "compiler crash", 4},
	{"compiler's own functions", "inline float f(float x) { return __builtin_sqrtf(x); }", "metal_stdlib", 3},
	{"OpenCL's spaces", "inline float f(__global float* x) { return x[0]; }", "is OpenCL", 3},
	{"simd header", "#include <simd/simd.h>\n", "no include path", 3},
	{"internals", "#pragma METAL internals : enable\n", "Apple's own headers", 3},
	{"open bracket", "inline float f() { return (1; }", "closes the (", 3},
	{"open comment", "/* never closed", "not closed", 3},
	{"character", "inline float f() { return 1; } €", "character", 3},
}

func TestRefusals(t *testing.T) {
	for _, c := range snippets {
		_, err := Translate(head + c.source)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s is refused: %v", c.name, err)
			}
			continue
		}
		var refusal *metal.CompileError
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Text, c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		} else if refusal.Line != c.line {
			t.Errorf("%s: line %d, want %d", c.name, refusal.Line, c.line)
		}
	}
	if _, err := Translate("kernel void k(device float* o [[buffer(0)]]) {}"); err == nil || !strings.Contains(err.Error(), "#include <metal_stdlib>") {
		t.Errorf("a source without the header: %v", err)
	}
}
