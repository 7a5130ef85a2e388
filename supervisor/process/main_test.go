package process

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"lilypad/protocol"
	"lilypad/protocol/fake"
)

// The test binary is also the worker and, to be killed, a supervisor.
func TestMain(m *testing.M) {
	if protocol.StartedBySupervisor(os.Getenv) {
		if os.Getenv(lifelineEnv) != "" {
			forgetParent()
		}
		fake.Main(fake.Options{})
	}
	if dir := os.Getenv(supervisorEnv); dir != "" {
		superviseForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// lifelineEnv makes the worker give up the kernel's help with a dead parent.
const lifelineEnv = "LILYPAD_TEST_LIFELINE"

// testConfig launches this binary as a fake worker with faults.
func testConfig(t testing.TB, faults string) Config {
	dir, err := os.MkdirTemp("/tmp", "lp") // t.TempDir is too long for a socket on macOS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := os.ReadDir(dir)
		if len(left) > 0 && !t.Failed() {
			t.Errorf("run folder is left with %v", left)
		}
		os.RemoveAll(dir)
	})
	return Config{
		Command:  []string{os.Args[0]},
		Env:      append(os.Environ(), fake.FaultsEnv+"="+faults),
		RunDir:   dir,
		Pressure: func() Pressure { return Pressure{Level: PressureNormal} },
		Limits: Limits{
			Backoff: []time.Duration{10 * time.Millisecond}, HalfOpen: 50 * time.Millisecond, Breaker: 3, Jetsam: 30 * time.Millisecond,
			Drain: time.Second, Unload: 300 * time.Millisecond,
		},
	}
}

// testLog writes to the test's log.
func testLog(t testing.TB) logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(testWriter{t})
	l.SetLevel(logrus.DebugLevel)
	return l
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// run runs a manager until the test ends.
func run(t testing.TB, cfg Config) *Manager {
	m := New(cfg, testLog(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return m
}

// within gives a context for one step of a test. The limit only ends a test that hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func ready(t testing.TB, m *Manager) *Worker {
	t.Helper()
	w, err := m.Worker(within(t))
	if err != nil {
		t.Fatalf("worker: %v", err)
	}
	return w
}

func verdict(t testing.TB, w *Worker) Verdict {
	t.Helper()
	v, err := w.Verdict(within(t))
	if err != nil {
		t.Fatalf("verdict: %v", err)
	}
	return v
}
