package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// chatCommandLine runs the built binary's chat with something on stdin.
func chatCommandLine(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"chat", "--data", t.TempDir()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestChat(t *testing.T) {
	if raceEnabled {
		t.Skip("the binary is built without the race detector; the plain run tests it")
	}
	s := startServer(t)
	tests := []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"own server", "", []string{"--listen", "127.0.0.1:0", "What is 17 + 25?"}, "17 + 25 = 42.\n"},
		{"a running server", "", []string{"--server", s.base, "What is 17 + 25?"}, "17 + 25 = 42.\n"},
		{"without thinking", "", []string{"--server", s.base, "--think=false", "What is the capital of France?"}, "The capital of France is Paris.\n"},
		{"a conversation remembers", "My name is Ada.\n\nWhat is my name?\n", []string{"--server", s.base}, "Your name is Ada.\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := chatCommandLine(t, tt.stdin, tt.args...); !strings.HasSuffix(got, tt.want) {
				t.Errorf("printed %q, want it to end with %q", got, tt.want)
			}
		})
	}
	ensureNoOrphans(t, s)
}

// TestPortInUse: a second server on one address says so and ends.
func TestPortInUse(t *testing.T) {
	if raceEnabled {
		t.Skip("the binary is built without the race detector; the plain run tests it")
	}
	s := startServer(t)
	path, _ := buildOnce()
	out, err := exec.Command(path, "serve", "--listen", strings.TrimPrefix(s.base, "http://"), "--data", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is in use by another program") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
	if code := s.stop(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d after SIGTERM, want %d\n%s", code, exitOK, s.log)
	}
}
