package process

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lilypad/protocol"
)

// Cause is the kind of a worker's death.
type Cause string

// The causes of a death.
const (
	Jetsam   Cause = "jetsam"       // SIGKILL under memory pressure, or an out-of-memory kill
	GPUFault Cause = "gpu_fault"    // the GPU driver or a Metal assertion ended it
	Crash    Cause = "native_crash" // SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGTRAP
	Panic    Cause = "panic"        // a Go panic or fatal error
	Exited   Cause = "exited"       // another exit code
	Killed   Cause = "killed"       // SIGKILL or SIGTERM from outside, no memory pressure seen
	Ours     Cause = "ours"         // we asked for it
	Stalled  Cause = "stalled"      // we killed it since it made no progress
)

// Verdict tells how a worker died, with no prompt text.
type Verdict struct {
	Cause       Cause
	Signal      string        // "killed", "segmentation fault" ...; empty without one
	ExitCode    int           // -1 without one
	Incarnation int           //
	Sign        string        // what was noticed first: "connection", "exit", "heartbeat"
	Beat        protocol.Beat // last heartbeat: phase, layer, step, bytes and the running request
	Evidence    []string      // short lines for a person: pressure seen, last native log line
	At          time.Time
}

// remains is what is known after a death.
type remains struct {
	known    bool               // the wait status below is known
	status   syscall.WaitStatus //
	ours     Cause              // why we killed it; empty if we did not
	lines    []string           // last lines of stderr that were no log entries
	pressure Pressure           // worst level of the last half minute
	oomKills int64              // out-of-memory kills seen since the start
}

// How the Go runtime ends: it catches most signals, prints them and exits with status 2.
var (
	goSignal = regexp.MustCompile(`^(?:\[signal )?(SIG[A-Z0-9]+): `)
	goPanic  = regexp.MustCompile(`^(panic: |fatal error: )`)
	goMemory = regexp.MustCompile(`^fatal error: (runtime: )?(out of memory|cannot allocate memory)`)
	goFault  = regexp.MustCompile(`^fatal error: (unexpected signal|fault)`)
	gpuLine  = regexp.MustCompile(`\bMTL|Metal|IOGPU|\bAGX`)
)

// classify tells how a worker died.
func classify(r remains) (cause Cause, signal string, exitCode int, evidence []string) {
	exitCode = -1
	var sig syscall.Signal
	var panicked, faulted, noMemory bool
	var gpu string
	for _, line := range r.lines {
		switch {
		case goMemory.MatchString(line):
			noMemory = true
		case goFault.MatchString(line):
			faulted = true
		case goPanic.MatchString(line):
			panicked = true
		case gpuLine.MatchString(line):
			gpu = line
		}
	}
	switch {
	case r.known && r.status.Signaled():
		sig = r.status.Signal()
	case r.known && r.status.Exited():
		exitCode = r.status.ExitStatus()
		if exitCode == 2 && (!panicked || faulted) { // after a panic the signal only explains it
			sig = printedSignal(r.lines)
		}
	}
	if sig != 0 {
		signal = sig.String()
	}
	if line := telling(r.lines); line != "" {
		evidence = append(evidence, line)
	}
	switch {
	case r.ours != "":
		return r.ours, signal, exitCode, evidence
	case !r.known:
		return Exited, signal, exitCode, evidence
	case noMemory:
		return Jetsam, signal, exitCode, evidence
	case gpu != "" && (sig != 0 && sig != syscall.SIGKILL && sig != syscall.SIGTERM || exitCode > 0):
		return GPUFault, signal, exitCode, append(evidence, short(gpu))
	case sig == syscall.SIGKILL && r.oomKills > 0:
		return Jetsam, signal, exitCode, append(evidence, fmt.Sprintf("%d out-of-memory kills", r.oomKills))
	case sig == syscall.SIGKILL && r.pressure.Level >= PressureWarn:
		return Jetsam, signal, exitCode, append(evidence, "memory pressure: "+r.pressure.Text)
	case sig == syscall.SIGKILL, sig == syscall.SIGTERM, sig == syscall.SIGINT, sig == syscall.SIGHUP, sig == syscall.SIGQUIT:
		return Killed, signal, exitCode, evidence
	case sig != 0:
		return Crash, signal, exitCode, evidence
	case panicked && exitCode == 2:
		return Panic, signal, exitCode, evidence
	}
	return Exited, signal, exitCode, evidence
}

// printedSignal is the signal that the Go runtime printed before its exit, or 0.
func printedSignal(lines []string) syscall.Signal {
	for _, line := range lines {
		if m := goSignal.FindStringSubmatch(line); m != nil {
			return unix.SignalNum(m[1])
		}
	}
	return 0
}

// telling is the line that explains most: the first of a panic, else the last one.
func telling(lines []string) string {
	for _, line := range lines {
		if goPanic.MatchString(line) || goSignal.MatchString(line) {
			return short(line)
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(lines[i]); s != "" {
			return short(s)
		}
	}
	return ""
}

// short cuts a line to what fits a status page.
func short(line string) string {
	const most = 200
	line = strings.ToValidUTF8(line, "\uFFFD")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}
