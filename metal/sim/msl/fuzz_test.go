package msl

import (
	"errors"
	"os"
	"testing"
	"time"

	"lilypad/metal"
)

// FuzzTranslate checks that any text is either refused with a message or becomes C++ in all forms.
func FuzzTranslate(f *testing.F) {
	f.Add(every)
	for _, seed := range []string{
		"struct S { int a; S(int x) : a(x) {} int operator()(int i) const device { return a; } };",
		"template<int N> inline float f() { if constexpr (N > 1) return 1; else return 2; }",
		"constant uint N [[function_constant(0)]]; constant float T[2] = {1, 2}; namespace a { inline void g(thread float (&x)[4]) {} }",
		"inline float h(float4 a, float4 b) { thread auto& r = a; return any(a < b) ? (float (*)(float))0 == 0 : r.x; }",
		"#define A(x) \\\n (thread float*)x + 1.5bf\nenum class E : uint { a, b = 2 }; union U { float f; uint u; };",
	} {
		f.Add(head + seed)
	}
	f.Add(head + "kernel void k(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i] = 1; }")
	for _, name := range []string{"common.metal", "linear.metal"} {
		if b, err := os.ReadFile("../../kernels/" + name); err == nil {
			f.Add(head + string(b))
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		late := time.AfterFunc(10*time.Second, func() { panic("no answer") })
		defer late.Stop()
		u, err := Translate(source)
		if err != nil {
			var refusal *metal.CompileError
			if !errors.As(err, &refusal) || refusal.Text == "" || refusal.Line < 1 {
				t.Fatalf("a refusal without text or line: %#v", err)
			}
			return
		}
		if c, err := u.C(nil); err != nil || c == "" || u.Probe() == "" {
			t.Fatalf("accepted, but C++ is %q, %v", c, err)
		}
		for _, k := range u.Kernels {
			_ = u.Uses(k.Name)
		}
	})
}
