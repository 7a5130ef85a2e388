package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
)

func generate(ctx context.Context, w *Worker, n int) (tokens int, err error) {
	err = w.Engine.Generate(ctx, protocol.GenerateRequest{ID: "req-1", Tokens: []int32{'a', 'b'}, Prompt: 2, MaxTokens: n},
		func(e protocol.Event) error { tokens += len(e.Tokens); return nil })
	return tokens, err
}

func TestDeaths(t *testing.T) {
	tests := []struct {
		name, faults string
		cause        Cause
		signal       string
		exit         int
		tokens       int
		evidence     string
	}{
		{"SIGKILL before prefill", "die_in=prefill,how=KILL", Killed, "killed", -1, 0, ""},
		{"SIGKILL before the first token", "die_at=0", Killed, "killed", -1, 0, ""},
		{"SIGKILL in the middle", "die_at=7", Killed, "killed", -1, 7, ""},
		{"SIGTERM", "die_at=3,how=TERM", Killed, "terminated", -1, 3, ""},
		{"SIGSEGV", "die_at=3,how=SEGV", Crash, "segmentation fault", 2, 3, "SIGSEGV: segmentation violation"},
		{"SIGABRT", "die_at=3,how=ABRT", Crash, "aborted", 2, 3, "SIGABRT: abort"},
		{"SIGBUS", "die_at=3,how=BUS", Crash, "bus error", 2, 3, "SIGBUS: bus error"},
		{"SIGTRAP", "die_at=3,how=TRAP", Crash, "trace/breakpoint trap", 2, 3, "SIGTRAP"},
		{"Metal assertion", "die_at=3,how=metal", GPUFault, "aborted", 2, 3, "failed assertion"},
		{"exit 42", "die_at=3,how=42", Exited, "", 42, 3, ""},
		{"exit 0", "die_at=3,how=0", Exited, "", 0, 3, ""},
		{"panic", "die_at=3,how=panic", Panic, "", 2, 3, "panic: fake worker"},
		{"odd log line", "die_at=3,how=message", Exited, "", 3, 3, `{"@level":"error","@message":5`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := run(t, testConfig(t, tt.faults+",once="+filepath.Join(t.TempDir(), "once")))
			w := ready(t, m)
			tokens, err := generate(within(t), w, 20)
			if !errors.Is(err, protocol.ErrWorkerGone) || tokens > tt.tokens { // the last ones may be lost
				t.Fatalf("generate gave %d tokens and %v, want at most %d and ErrWorkerGone", tokens, err, tt.tokens)
			}
			<-w.Gone()
			v := verdict(t, w)
			if v.Cause != tt.cause || v.Signal != tt.signal || v.ExitCode != tt.exit || v.Beat.Request != "req-1" {
				t.Errorf("verdict %+v", v)
			}
			if all := strings.Join(v.Evidence, "\n"); !strings.Contains(all, tt.evidence) {
				t.Errorf("evidence %q lacks %q", all, tt.evidence)
			}
			next := ready(t, m)
			if next.Incarnation != w.Incarnation+1 {
				t.Errorf("incarnation %d follows %d", next.Incarnation, w.Incarnation)
			}
			if tokens, err := generate(within(t), next, 20); tokens != 20 || err != nil {
				t.Errorf("the next worker gave %d tokens and %v", tokens, err)
			}
			if s := m.Status(); s.State != Ready || s.Restarts[tt.cause] != 1 || s.Last.Cause != tt.cause {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// A worker that stops without dying is the worst case for go-plugin, whose Ping and Kill wait for it for ever.
func TestStopped(t *testing.T) {
	for _, phase := range []string{"idle", "decode"} {
		t.Run(phase, func(t *testing.T) {
			cfg := testConfig(t, "slow=2ms")
			cfg.Limits.Decode, cfg.Limits.Silent, cfg.Limits.Ping = 500*time.Millisecond, 500*time.Millisecond, 50*time.Millisecond
			m := run(t, cfg)
			w := ready(t, m)
			failed := make(chan error, 1)
			if phase == "decode" {
				started := make(chan bool)
				first := sync.OnceFunc(func() { close(started) })
				go func() {
					failed <- w.Engine.Generate(within(t), protocol.GenerateRequest{Tokens: []int32{'a'}, Prompt: 1, MaxTokens: 4000},
						func(e protocol.Event) error {
							if e.Tokens != nil {
								first()
							}
							return nil
						})
				}()
				<-started
			}
			syscall.Kill(m.Status().PID, syscall.SIGSTOP)
			v := verdict(t, w)
			if v.Cause != Stalled || v.Sign != "heartbeat" || v.Signal != "killed" {
				t.Errorf("verdict %+v", v)
			}
			if phase == "decode" {
				if err := <-failed; !errors.Is(err, protocol.ErrWorkerGone) {
					t.Errorf("generate: %v", err)
				}
			}
			ready(t, m)
		})
	}
}

// Stopping must not wait for a stopped worker either.
func TestRunEndsWithStoppedWorker(t *testing.T) {
	m := run(t, testConfig(t, ""))
	ready(t, m)
	syscall.Kill(m.Status().PID, syscall.SIGSTOP)
}

func TestHangs(t *testing.T) {
	for _, place := range []string{"load", "prefill", "decode"} {
		t.Run(place, func(t *testing.T) {
			cfg := testConfig(t, "hang_in="+place)
			cfg.Limits.Load, cfg.Limits.Prefill, cfg.Limits.Decode = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
			m := run(t, cfg)
			if place == "load" {
				if _, err := m.Worker(within(t)); !errors.Is(err, ErrUnstable) {
					t.Fatalf("worker: %v, want ErrUnstable", err)
				}
				if s := m.Status(); s.Last.Cause != Stalled || s.Last.Beat.Phase != protocol.PhaseLoad {
					t.Errorf("status %+v", s)
				}
				return
			}
			w := ready(t, m)
			if _, err := generate(within(t), w, 5); !errors.Is(err, protocol.ErrWorkerGone) {
				t.Errorf("generate: %v", err)
			}
			if v := verdict(t, w); v.Cause != Stalled || v.Beat.Phase.String() != place {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// An unload that hangs delays the end of Run by Limits.Unload; run's cleanup waits for it.
func TestRunEndsWhenUnloadHangs(t *testing.T) {
	m := run(t, testConfig(t, "hang_in=shutdown"))
	ready(t, m)
}

// Ctrl-C while a worker starts that never answers.
func TestRunEndsWhileStarting(t *testing.T) {
	cfg := testConfig(t, "")
	cfg.Command = []string{"/bin/sleep", "1000"}
	m := run(t, cfg)
	for m.Status().PID == 0 && m.Status().State != Starting {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Worker(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("worker: %v", err)
	}
}

// A worker that never shakes hands is no worker.
func TestNoHandshake(t *testing.T) {
	for name, command := range map[string][]string{
		"silent":  {"/bin/sleep", "1000"},
		"talking": {"/bin/sh", "-c", "while :; do echo nonsense; sleep 0.01; done"},
		"ending":  {"/bin/sh", "-c", "echo usage: none >&2; exit 64"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, "")
			cfg.Command, cfg.Limits.Start = command, 200*time.Millisecond
			m := run(t, cfg)
			if _, err := m.Worker(within(t)); !errors.Is(err, ErrUnstable) {
				t.Fatalf("worker: %v", err)
			}
			last := m.Status().Last
			if name == "ending" && (last.Cause != Exited || last.ExitCode != 64 || !strings.Contains(strings.Join(last.Evidence, " "), "usage: none")) {
				t.Errorf("verdict %+v", last)
			}
			if name != "ending" && last.Cause != Exited && last.Cause != Stalled {
				t.Errorf("verdict %+v", last)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	var warnings []string
	l := logrus.New()
	l.SetOutput(testWriter{t})
	l.AddHook(&hook{func(e *logrus.Entry) {
		warnings = append(warnings, fmt.Sprint(e.Message, e.Data["line"], e.Data["tokens"]))
	}})
	m := New(testConfig(t, "garbage_stdout,garbage_stderr"), l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	ready(t, m)
	cancel()
	<-done
	all := strings.Join(warnings, "\n")
	for _, want := range []string{"[WARN] native warning", "level of another logger", "after the garbage", "3"} {
		if !strings.Contains(all, want) {
			t.Errorf("log lacks %q:\n%s", want, all)
		}
	}
}

type hook struct{ f func(*logrus.Entry) }

func (h *hook) Levels() []logrus.Level     { return logrus.AllLevels }
func (h *hook) Fire(e *logrus.Entry) error { h.f(e); return nil }

// A grandchild that keeps stdout and stderr open must not delay anything.
func TestLeakedGrandchild(t *testing.T) {
	m := run(t, testConfig(t, "leak_grandchild"))
	w := ready(t, m)
	m.mu.Lock()
	logs := m.child.logs
	m.mu.Unlock()
	var pid int
	for pid == 0 {
		for _, line := range logs.raw() {
			if n, ok := strings.CutPrefix(line, "grandchild "); ok {
				pid, _ = strconv.Atoi(n)
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	syscall.Kill(m.Status().PID, syscall.SIGKILL)
	if v := verdict(t, w); v.Cause != Killed {
		t.Errorf("verdict %+v", v)
	}
	ready(t, m)
	if syscall.Kill(pid, 0) != nil {
		t.Skip("the grandchild ended by itself")
	}
}

func TestRefused(t *testing.T) {
	cfg := testConfig(t, "")
	cfg.Load.Model = "/no/such/missing"
	m := run(t, cfg)
	_, err := m.Worker(within(t))
	if protocol.CodeOf(err) != protocol.CodeCheckpoint {
		t.Fatalf("worker: %v, want CodeCheckpoint", err)
	}
	if s := m.Status(); s.State != Refused || s.Incarnation != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestNoSuchCommand(t *testing.T) {
	cfg := testConfig(t, "")
	cfg.Command = []string{"/no/such/binary"}
	m := run(t, cfg)
	if _, err := m.Worker(within(t)); !errors.Is(err, ErrUnstable) {
		t.Fatalf("worker: %v", err)
	}
	if s := m.Status(); !strings.Contains(strings.Join(s.Last.Evidence, " "), "no such file") {
		t.Errorf("evidence %q", s.Last.Evidence)
	}
}

func TestDeathWhileLoading(t *testing.T) {
	m := run(t, testConfig(t, "die_in=load,how=42"))
	if _, err := m.Worker(within(t)); !errors.Is(err, ErrUnstable) {
		t.Fatalf("worker: %v", err)
	}
	if s := m.Status(); s.Last.Cause != Exited || s.Last.ExitCode != 42 {
		t.Errorf("last %+v", s.Last)
	}
}

func TestKillIsOurs(t *testing.T) {
	m := run(t, testConfig(t, ""))
	for _, cause := range []Cause{Ours, Stalled} {
		w := ready(t, m)
		m.Kill(w, cause)
		if v := verdict(t, w); v.Cause != cause {
			t.Errorf("verdict %+v, want %s", v, cause)
		}
		m.Kill(w, cause) // the next worker stays
	}
	ready(t, m)
	if s := m.Status(); s.Restarts[Ours] != 1 || s.Restarts[Stalled] != 1 {
		t.Errorf("restarts %v", s.Restarts)
	}
}

func TestJetsam(t *testing.T) {
	high := make(chan int, 1)
	level := PressureHigh
	cfg := testConfig(t, "")
	cfg.Pressure = func() Pressure {
		select {
		case level = <-high:
		default:
		}
		return Pressure{Level: level, Text: "test"}
	}
	m := run(t, cfg)
	w := ready(t, m)
	syscall.Kill(m.Status().PID, syscall.SIGKILL)
	if v := verdict(t, w); v.Cause != Jetsam || !strings.Contains(strings.Join(v.Evidence, " "), "memory pressure: test") {
		t.Errorf("verdict %+v", v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := m.Worker(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a worker started under memory pressure: %v", err)
	}
	high <- PressureNormal
	ready(t, m)
}
