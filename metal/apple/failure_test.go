package apple

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"lilypad/metal"
)

// entries are the lines of a recorded file without its comments.
func entries(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") || strings.HasPrefix(line, "#include") {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

var failureNames = map[string]metal.Failure{
	"Failed": metal.Failed, "OutOfMemory": metal.OutOfMemory, "Timeout": metal.Timeout, "Hang": metal.Hang,
	"PageFault": metal.PageFault, "Impacting": metal.Impacting, "Ignored": metal.Ignored, "Revoked": metal.Revoked,
	"InvalidUse": metal.InvalidUse, "Victim": metal.Victim,
}

func TestRecordedFailures(t *testing.T) {
	missing := map[metal.Failure]bool{}
	for f := metal.OutOfMemory; f <= metal.Victim; f++ {
		missing[f] = true
	}
	for _, line := range entries(t, "failures.tsv") {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			t.Fatalf("%q has %d fields, want 4", line, len(fields))
		}
		want, known := failureNames[fields[0]]
		code, err := strconv.Atoi(fields[1])
		if !known || err != nil {
			t.Fatalf("%q: unknown failure or code", line)
		}
		delete(missing, want)
		// Logs come with words before the description and after it.
		for _, text := range []string{fields[2], "Command buffer execution failed: " + fields[2] + "."} {
			if got := classify(text, domain, code); got != want {
				t.Errorf("%q of %s: %v, want %v", text, fields[3], got, want)
			}
		}
	}
	for f := range missing {
		t.Errorf("no recorded error is %q", f)
	}
}

func TestFailuresByCode(t *testing.T) {
	for _, c := range []struct {
		name         string
		text, domain string
		code         int
		want         metal.Failure
	}{
		{"internal", "", domain, 1, metal.Failed},
		{"timeout", "", domain, 2, metal.Timeout},
		{"page fault", "", domain, 3, metal.PageFault},
		{"access revoked", "", domain, 4, metal.Revoked},
		{"not permitted", "", domain, 7, metal.Revoked},
		{"out of memory", "", domain, 8, metal.OutOfMemory},
		{"invalid resource", "", domain, 9, metal.InvalidUse},
		{"device removed", "", domain, 11, metal.Revoked},
		{"stack overflow", "", domain, 12, metal.Failed},
		{"a word that is new", "x (000000ff:kIOGPUCommandBufferCallbackErrorNovelty)", domain, 8, metal.OutOfMemory},
		{"the word wins", "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)", domain, 2, metal.Impacting},
		{"another domain's code", "", "NSCocoaErrorDomain", 8, metal.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := classify(c.text, c.domain, c.code); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestCompileErrorLines(t *testing.T) {
	for entry := range strings.SplitSeq(strings.Join(entries(t, "compile.txt"), "\n"), "\n--\n") {
		line, text, _ := strings.Cut(entry, "\n")
		want, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if e := compileError(text); e.Line != want || e.Text != text {
			t.Errorf("%q: line %d, want %d", text, e.Line, want)
		}
	}
}
