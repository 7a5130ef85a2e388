package cpu

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lilypad/protocol"
)

// TestKernelSets makes a model with each set, whose name states carry, and refuses others.
func TestKernelSets(t *testing.T) {
	sets := KernelSets()
	if sets[len(sets)-1] != "go" {
		t.Errorf("sets %v, want go as the last", sets)
	}
	for _, name := range append(slices.Clone(sets), "") {
		want := "cpu/" + name + "-" + runtime.GOARCH
		if name == "" {
			want = "cpu/" + sets[0] + "-" + runtime.GOARCH
		}
		if got := smallModel(t, Options{Kernels: name}).Kernels(); got != want {
			t.Errorf("kernels %q are named %q, want %q", name, got, want)
		}
	}
	_, err := kernelsNamed("abacus")
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CodeInvalid || !strings.Contains(e.Error(), strings.Join(sets, ", ")) {
		t.Errorf("error %v, want code %d and the sets %v", err, protocol.CodeInvalid, sets)
	}
}
