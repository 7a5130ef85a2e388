package process

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilypad/protocol"
)

func TestRestartRule(t *testing.T) {
	l := Limits{}.withDefaults()
	type death struct {
		cause    Cause
		loaded   bool
		min, max time.Duration // of the wait
		memory   bool
		open     bool
	}
	s, ms := time.Second, time.Millisecond
	tests := []struct {
		name   string
		deaths []death
	}{
		{"after a load at once, every time", slices.Repeat([]death{{cause: Crash, loaded: true}}, 20)},
		{"in a row without a load", []death{
			{Exited, false, 200 * ms, 300 * ms, false, false}, {Exited, false, 800 * ms, 1200 * ms, false, false},
			{Panic, false, 3200 * ms, 4800 * ms, false, false}, {Killed, false, 12 * s, 18 * s, false, false},
			{Exited, false, 120 * s, 120 * s, false, true}, {Exited, false, 120 * s, 120 * s, false, true},
		}},
		{"a load resets", []death{
			{Exited, false, 200 * ms, 300 * ms, false, false}, {Exited, false, 800 * ms, 1200 * ms, false, false},
			{Crash, true, 0, 0, false, false}, {Exited, false, 200 * ms, 300 * ms, false, false},
		}},
		{"jetsam waits for memory", []death{
			{Jetsam, true, 10 * s, 10 * s, true, false}, {Jetsam, false, 10 * s, 10 * s, true, false}, {Killed, true, 0, 0, false, false},
		}},
	}
	for _, tt := range tests {
		r := restarts{limits: l}
		for i, d := range tt.deaths {
			wait, memory, open := r.after(d.cause, d.loaded)
			if wait < d.min || wait > d.max || memory != d.memory || open != d.open {
				t.Errorf("%s: death %d: wait %s memory %v open %v, want %+v", tt.name, i, wait, memory, open, d)
			}
		}
	}
}

func TestStallRule(t *testing.T) {
	l := Limits{}.withDefaults()
	const tick = 100 * time.Millisecond
	type look struct {
		times   int
		every   time.Duration
		phase   protocol.Phase
		moves   bool // the step advances at each look
		answers bool
	}
	tests := []struct {
		name  string
		looks []look
		want  bool
	}{
		{"idle for an hour", []look{{36000, tick, protocol.PhaseIdle, false, true}}, false},
		{"idle and silent for 9 s", []look{{90, tick, protocol.PhaseIdle, false, false}}, false},
		{"idle and silent for 11 s", []look{{111, tick, protocol.PhaseIdle, false, false}}, true},
		{"decode quiet for 19 s", []look{{190, tick, protocol.PhaseDecode, false, true}}, false},
		{"decode quiet for 21 s", []look{{211, tick, protocol.PhaseDecode, false, true}}, true},
		{"decode silent for 11 s", []look{{111, tick, protocol.PhaseDecode, false, false}}, true},
		{"decode silent, yet moving", []look{{1000, tick, protocol.PhaseDecode, true, false}}, false},
		{"prefill quiet for 59 s", []look{{590, tick, protocol.PhasePrefill, false, true}}, false},
		{"prefill quiet for 61 s", []look{{611, tick, protocol.PhasePrefill, false, true}}, true},
		{"load quiet for 61 s", []look{{611, tick, protocol.PhaseLoad, false, true}}, true},
		{"start for 11 s", []look{{111, tick, protocol.PhaseStart, false, true}}, true},
		{"quiet, then a step, then quiet", []look{{150, tick, protocol.PhaseDecode, false, true}, {1, tick, protocol.PhaseDecode, true, true}, {150, tick, protocol.PhaseDecode, false, true}}, false},
		{"the machine slept for a day", []look{{100, tick, protocol.PhaseDecode, false, true}, {1, 24 * time.Hour, protocol.PhaseDecode, false, true}, {50, tick, protocol.PhaseDecode, false, true}}, false},
		{"the clock went back", []look{{100, tick, protocol.PhaseDecode, false, true}, {1, -time.Hour, protocol.PhaseDecode, false, true}, {50, tick, protocol.PhaseDecode, false, true}}, false},
	}
	for _, tt := range tests {
		s := stall{limits: l, interval: tick}
		now, step, stalled := time.Now(), uint64(1), false
		for _, k := range tt.looks {
			for range k.times {
				now = now.Add(k.every)
				if k.moves {
					step++
				}
				stalled = stalled || s.observe(now, protocol.Beat{Phase: k.phase, Step: step}, k.answers)
			}
		}
		if stalled != tt.want {
			t.Errorf("%s: stalled %v, want %v", tt.name, stalled, tt.want)
		}
	}
}

func TestClassify(t *testing.T) {
	exit := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	signal := func(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }
	warn := Pressure{Level: PressureWarn, Text: "low"}
	tests := []struct {
		name   string
		r      remains
		cause  Cause
		signal string
		exit   int
	}{
		{"killed", remains{known: true, status: signal(syscall.SIGKILL)}, Killed, "killed", -1},
		{"killed under pressure", remains{known: true, status: signal(syscall.SIGKILL), pressure: warn}, Jetsam, "killed", -1},
		{"killed for memory", remains{known: true, status: signal(syscall.SIGKILL), oomKills: 1}, Jetsam, "killed", -1},
		{"killed by us under pressure", remains{known: true, status: signal(syscall.SIGKILL), pressure: warn, ours: Ours}, Ours, "killed", -1},
		{"stalled", remains{known: true, status: signal(syscall.SIGKILL), ours: Stalled}, Stalled, "killed", -1},
		{"terminated under pressure", remains{known: true, status: signal(syscall.SIGTERM), pressure: warn}, Killed, "terminated", -1},
		{"segmentation fault in C", remains{known: true, status: signal(syscall.SIGSEGV)}, Crash, "segmentation fault", -1},
		{"abort", remains{known: true, status: signal(syscall.SIGABRT), lines: []string{"libc++abi: terminating"}}, Crash, "aborted", -1},
		{"Metal assertion", remains{known: true, status: signal(syscall.SIGABRT), lines: []string{"-[MTLDevice x]: failed assertion"}}, GPUFault, "aborted", -1},
		{"GPU driver", remains{known: true, status: exit(1), lines: []string{"IOGPUCommandQueue: kIOGPUCommandBufferCallbackErrorTimeout"}}, GPUFault, "", 1},
		{"killed after a GPU warning", remains{known: true, status: signal(syscall.SIGKILL), lines: []string{"Metal warning"}}, Killed, "killed", -1},
		{"Go caught SIGSEGV", remains{known: true, status: exit(2), lines: []string{"SIGSEGV: segmentation violation", "PC=0x1"}}, Crash, "segmentation fault", 2},
		{"Go caught SIGQUIT", remains{known: true, status: exit(2), lines: []string{"SIGQUIT: quit"}}, Killed, "quit", 2},
		{"fault in native code", remains{known: true, status: exit(2), lines: []string{"fatal error: unexpected signal during runtime execution", "[signal SIGBUS: bus error code=0x2]"}}, Crash, "bus error", 2},
		{"nil pointer", remains{known: true, status: exit(2), lines: []string{"panic: runtime error: invalid memory address or nil pointer dereference", "[signal SIGSEGV: segmentation violation code=0x1]"}}, Panic, "", 2},
		{"deadlock", remains{known: true, status: exit(2), lines: []string{"fatal error: all goroutines are asleep - deadlock!"}}, Panic, "", 2},
		{"Go ran out of memory", remains{known: true, status: exit(2), lines: []string{"fatal error: runtime: out of memory"}}, Jetsam, "", 2},
		{"exit 2 without a word", remains{known: true, status: exit(2)}, Exited, "", 2},
		{"exit 1 after a recovered panic's text", remains{known: true, status: exit(1), lines: []string{"panic: recovered"}}, Exited, "", 1},
		{"exit 0", remains{known: true, status: exit(0)}, Exited, "", 0},
		{"no status", remains{}, Exited, "", -1},
	}
	for _, tt := range tests {
		cause, sig, code, evidence := classify(tt.r)
		if cause != tt.cause || sig != tt.signal || code != tt.exit {
			t.Errorf("%s: %s %q %d, want %s %q %d", tt.name, cause, sig, code, tt.cause, tt.signal, tt.exit)
		}
		if len(tt.r.lines) > 0 && len(evidence) == 0 {
			t.Errorf("%s: no evidence", tt.name)
		}
	}
}

func TestWorkerEnv(t *testing.T) {
	got := WorkerEnv([]string{
		"PATH=/bin", "HOME=/h", "LANG=C", "OPENAI_API_KEY=x", "LILYPAD_CLOUD_KEY=x", "LILYPAD_TOKEN=x", "LILYPAD_DATA=d", "AWS_SECRET=x", "SSH_AUTH_SOCK=x", "GOGC=50",
	})
	if want := "PATH=/bin HOME=/h LANG=C LILYPAD_DATA=d GOGC=50"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestPressuresForget(t *testing.T) {
	level := PressureHigh
	p := &pressures{read: func() Pressure { return Pressure{Level: level} }}
	now := time.Now()
	p.sample(now)
	level = PressureNormal
	p.sample(now.Add(20 * time.Second))
	if w := p.worst(); w.Level != PressureHigh {
		t.Errorf("after 20 s: %+v", w)
	}
	p.sample(now.Add(31 * time.Second))
	if w := p.worst(); w.Level != PressureNormal {
		t.Errorf("after 31 s: %+v", w)
	}
}

func ExampleStatus_Progressing() {
	s := Status{Answers: true, Quiet: 6 * time.Second}
	fmt.Println(s.Progressing())
	// Output: false
}
