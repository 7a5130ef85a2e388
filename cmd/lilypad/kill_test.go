package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// killCount is how many requests lose their worker: 8, or LILYPAD_KILLS (CI sets 50).
func killCount(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("LILYPAD_KILLS"))
	if err != nil && os.Getenv("LILYPAD_KILLS") != "" {
		t.Fatalf("LILYPAD_KILLS: %v", err)
	}
	if n <= 0 {
		return 8
	}
	return n
}

// longAnswers are requests whose answers take long enough to be hit in the middle.
var longAnswers = []struct {
	name string
	body map[string]any
}{
	{"counting, greedy", map[string]any{
		"messages":             []map[string]any{{"role": "user", "content": "Count from 1 to 120."}},
		"temperature":          0,
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
	}},
	{"story, sampled", map[string]any{
		"messages":             []map[string]any{{"role": "user", "content": "Tell me a story about a hamster."}},
		"temperature":          1.2,
		"seed":                 20261129,
		"max_tokens":           300,
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
	}},
}

// TestKillAtRandomMoments kills the worker once in each request; the client must get the text of an undisturbed run, byte for
// byte, and one finish.
func TestKillAtRandomMoments(t *testing.T) {
	if raceEnabled {
		t.Skip("kill tests run a normal build")
	}
	s := startServer(t)
	want := make([]answer, len(longAnswers))
	took := make([]time.Duration, len(longAnswers))
	for i, l := range longAnswers {
		start := time.Now()
		a, err := s.post(with(l.body, "stream", true), nil)
		if err != nil {
			t.Fatalf("%s, undisturbed: %v", l.name, err)
		}
		if len(a.text) < 200 { // not its chunks: those merge when this reader is slow
			t.Fatalf("%s: only %d bytes: too short to be hit in the middle", l.name, len(a.text))
		}
		want[i], took[i] = a, time.Since(start)
	}
	files := openFiles(t, s.cmd.Process.Pid)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range killCount(t) {
		i := n % len(longAnswers)
		stream := n/len(longAnswers)%2 == 0
		name := fmt.Sprintf("%d, %s, stream %v", n, longAnswers[i].name, stream)
		var got answer
		var err error
		if stream {
			at, killed := rng.IntN(len(want[i].text)), false
			name += fmt.Sprintf(", killed at byte %d of %d", at, len(want[i].text))
			got, err = s.post(with(longAnswers[i].body, "stream", true), func(a answer) {
				if !killed && len(a.text) > at {
					killed = true
					s.kill()
				}
			})
		} else {
			delay := time.Duration(rng.Int64N(int64(took[i])))
			name += fmt.Sprintf(", killed after %v", delay)
			timer := time.AfterFunc(delay, func() { s.kill() })
			got, err = s.post(longAnswers[i].body, nil)
			timer.Stop()
		}
		check(t, name, got, err, want[i])
	}
	settle(t, func() error {
		if now := openFiles(t, s.cmd.Process.Pid); now > files {
			return fmt.Errorf("%d open files in the supervisor, %d before the kills", now, files)
		}
		return nil
	})
	ensureNoOrphans(t, s)
}

// TestKillOnSimulatedGPU kills the worker six times, the first time in prefill, in each of two answers of 48 tokens that
// Metal kernels compute; the client must get the text of an undisturbed run, which a second run repeats.
func TestKillOnSimulatedGPU(t *testing.T) {
	if raceEnabled {
		t.Skip("kill tests run a normal build")
	}
	if _, err := exec.LookPath("clang-16"); err != nil {
		t.Skip("the Metal simulator needs clang-16: ", err)
	}
	s := startServer(t, "--backend", "sim:cpu")
	for _, l := range longAnswers {
		body := with(with(l.body, "stream", true), "max_tokens", 48)
		want, err := s.post(body, nil)
		if err != nil {
			t.Fatalf("%s, undisturbed: %v", l.name, err)
		}
		again, err := s.post(body, nil)
		check(t, l.name+", again", again, err, want)
		s.restart() // so that nothing is cached: some 30 tokens to prefill, one by one, take the simulator seconds
		timer := time.AfterFunc(300*time.Millisecond, func() { s.kill() })
		kills := 1
		got, err := s.post(body, func(a answer) {
			if kills < 6 && len(a.text) > len(want.text)*(2*kills-1)/11 {
				kills++
				s.kill()
			}
		})
		timer.Stop()
		check(t, l.name+", six kills", got, err, want)
		if kills != 6 {
			t.Errorf("%s: %d kills, want 6", l.name, kills)
		}
	}
	ensureNoOrphans(t, s)
	for phase, want := range map[string]int{"idle": len(longAnswers), "prefill": len(longAnswers), "decode": 5 * len(longAnswers)} {
		if got := len(regexp.MustCompile(`worker died.* phase=`+phase).FindAllString(s.log.String(), -1)); got != want {
			t.Errorf("%d workers died in %s, want %d\n%s", got, phase, want, s.log)
		}
	}
}

// TestKillFiveTimes kills the worker five times during one answer.
func TestKillFiveTimes(t *testing.T) {
	if raceEnabled {
		t.Skip("kill tests run a normal build")
	}
	s := startServer(t)
	body := with(longAnswers[0].body, "stream", true)
	want, err := s.post(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	got, err := s.post(body, func(a answer) {
		// By the length of the text: how many deltas share a chunk differs from run to run.
		if kills < 5 && len(a.text) > len(want.text)*(2*kills+1)/10 {
			kills++
			s.kill()
		}
	})
	check(t, "five kills", got, err, want)
	if kills != 5 {
		t.Errorf("%d kills, want 5", kills)
	}
	ensureNoOrphans(t, s)
}

// TestSupervisorKilled: no worker survives its supervisor by more than two seconds.
func TestSupervisorKilled(t *testing.T) {
	if raceEnabled {
		t.Skip("kill tests run a normal build")
	}
	s := startServer(t)
	pids := s.workers()
	if len(pids) != 1 {
		t.Fatalf("workers %v, want one", pids)
	}
	s.stop(syscall.SIGKILL)
	deadline := time.Now().Add(2 * time.Second)
	for alive(t, pids[0]) {
		if time.Now().After(deadline) {
			t.Fatalf("worker %d lives two seconds after its supervisor was killed", pids[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func check(t *testing.T, name string, got answer, err error, want answer) {
	t.Helper()
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case got.text != want.text:
		t.Errorf("%s: text differs\n got %q\nwant %q", name, got.text, want.text)
	case len(got.finishes) != 1 || got.finishes[0] != want.finishes[0]:
		t.Errorf("%s: finishes %q, want one %q", name, got.finishes, want.finishes[0])
	}
}

// ensureNoOrphans stops the server in good order and demands that its workers are gone with it.
func ensureNoOrphans(t *testing.T, s *server) {
	t.Helper()
	pids := s.workers()
	if code := s.stop(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d after SIGTERM, want %d\n%s", code, exitOK, s.log)
	}
	for _, pid := range pids {
		settle(t, func() error {
			if alive(t, pid) {
				return fmt.Errorf("worker %d outlived the server", pid)
			}
			return nil
		})
	}
}

// settle retries a condition that becomes true soon; its last error fails the test.
func settle(t *testing.T, condition func() error) {
	t.Helper()
	var err error
	for range 100 {
		if err = condition(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error(err)
}

// openFiles counts a process's descriptors; 0 where the system has no /proc.
func openFiles(t *testing.T, pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// with copies a request and sets one field.
func with(body map[string]any, key string, value any) map[string]any {
	out := maps.Clone(body)
	out[key] = value
	return out
}
