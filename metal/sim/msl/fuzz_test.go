package msl

import (
	"errors"
	"os"
	"testing"

	"lilypad/metal"
)

// FuzzTranslate checks that any text is either refused with a message or becomes C++ in all forms.
func FuzzTranslate(f *testing.F) {
	f.Add(every)
	f.Add(head + "kernel void k(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i] = 1; }")
	for _, name := range []string{"common.metal", "linear.metal"} {
		if b, err := os.ReadFile("../../kernels/" + name); err == nil {
			f.Add(head + string(b))
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
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
