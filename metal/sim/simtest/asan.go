package simtest

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"lilypad/metal/sim"
)

// ASan runs the calling test once more in a process with AddressSanitizer and reports whether this is that process. The
// caller goes on only there: if !simtest.ASan(t) { return }. The test fails when it fails there.
func ASan(t *testing.T) bool {
	t.Helper()
	child, report, err := UnderASan(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	return child
}

// UnderASan is ASan for tests that expect a report: in the first process it returns what the second wrote, with lines of
// kernels named ("kernel.metal:6:" by a symbolizer, else "line 6"), and how that ended.
func UnderASan(t *testing.T) (child bool, report string, err error) {
	t.Helper()
	if os.Getenv("LILYPAD_SIM_ASAN") != "" {
		return true, "", nil
	}
	if raceDetector {
		t.Skip("AddressSanitizer and Go's race detector don't go together")
	}
	library, err := sim.SanitizerLibrary()
	if errors.Is(err, sim.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+exactly(t.Name()), "-test.v")
	cmd.Env = append(os.Environ(), "LILYPAD_SIM_ASAN=1", "LD_PRELOAD="+library,
		"ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0:allocator_may_return_null=1:detect_odr_violation=0")
	out, err := cmd.CombinedOutput()
	return false, sim.NameLines(string(out)), err
}

// exactly is a pattern for go test that selects one test or subtest.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
