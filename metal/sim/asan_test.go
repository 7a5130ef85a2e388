package sim_test

import (
	"strings"
	"testing"

	"lilypad/metal/sim"
	"lilypad/metal/sim/simtest"
)

func TestAddressSanitizerAcceptsCorrectKernels(t *testing.T) {
	if !simtest.ASan(t) {
		return
	}
	for _, o := range []sim.Options{{}, {Check: true}} {
		y, err := launch(t, simtest.Open(t, o), kernelOf("threadgroup uint s[64];\ns[tid] = x[tid];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\ny[g.x * 64 + tid] = simd_sum(s[63 - tid]);"), nil)
		if err != nil || y[0] != (32+63)*16 {
			t.Errorf("got %d and %v, want %d", y[0], err, (32+63)*16)
		}
	}
}

// TestAddressSanitizerKeepsTheLimit: redzones behind arrays don't count as threadgroup memory.
func TestAddressSanitizerKeepsTheLimit(t *testing.T) {
	if simtest.ASan(t) {
		TestThreadgroupMemoryHasALimit(t)
	}
}

func TestAddressSanitizerNamesTheLine(t *testing.T) {
	cases := []struct{ name, code string }{ // the mistake is on line 6
		{"buffer", "if (tid == 0)\ny[256 + g.x] = n;"},
		{"threadgroup array", "threadgroup uint s[70];\ns[n + 6 + tid / 64] = n;\ny[tid] = s[tid];"},
		{"private array", "uint a[9];\nfor (uint i = 0; i < n; ++i) a[i] = x[i];\ny[tid] = a[x[tid] & 7];"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			child, report, err := simtest.UnderASan(t)
			if child {
				_, _ = launch(t, simtest.Open(t, sim.Options{}), kernelOf(c.code), nil)
				return
			}
			if err == nil || !strings.Contains(report, "AddressSanitizer") || !(strings.Contains(report, "kernel.metal:6:") || strings.Contains(report, "line 6")) {
				t.Errorf("got %v, want a report of line 6:\n%s", err, report)
			}
		})
	}
}
