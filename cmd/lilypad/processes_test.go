package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// processInfo is one line of the system's table of processes.
type processInfo struct {
	pid, parent int
	zombie      bool // ended, and waiting for its parent to ask how
}

// processes lists all processes: from /proc on Linux, where a small machine may lack ps, and by ps elsewhere.
func processes(t *testing.T) []processInfo {
	t.Helper()
	if runtime.GOOS == "linux" {
		return procProcesses(t)
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	var list []processInfo
	for line := range strings.Lines(string(out)) {
		var p processInfo
		var state string
		if _, err := fmt.Sscan(line, &p.pid, &p.parent, &state); err != nil {
			t.Fatalf("ps: %q: %v", line, err)
		}
		p.zombie = strings.HasPrefix(state, "Z")
		list = append(list, p)
	}
	return list
}

// procProcesses reads /proc/PID/stat: pid (name) state parent ..., where the name may hold anything.
func procProcesses(t *testing.T) []processInfo {
	t.Helper()
	files, err := fs.Glob(os.DirFS("/proc"), "[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("/proc lists %d processes: %v", len(files), err)
	}
	var list []processInfo
	for _, f := range files {
		data, err := os.ReadFile("/proc/" + f)
		if errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "no such process") {
			continue // it ended meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		var p processInfo
		var state string
		text := string(data)
		if _, err := fmt.Sscan(f[:strings.Index(f, "/")], &p.pid); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(text[strings.LastIndex(text, ")")+1:], &state, &p.parent); err != nil {
			t.Fatalf("/proc/%s: %v", f, err)
		}
		p.zombie = state == "Z"
		list = append(list, p)
	}
	return list
}

// childrenOf lists the live children of a process.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	var pids []int
	for _, p := range processes(t) {
		if p.parent == parent && !p.zombie {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// alive is true while a process exists and has not ended.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	for _, p := range processes(t) {
		if p.pid == pid {
			return !p.zombie
		}
	}
	return false
}
