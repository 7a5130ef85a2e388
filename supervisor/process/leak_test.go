package process

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// openFiles counts this process's descriptors, or -1 where it can't.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if entries, err := os.ReadDir(dir); err == nil {
			return len(entries)
		}
	}
	return -1
}

// Fifty deaths leave nothing behind: no descriptor, no goroutine, no zombie (TestMain looks for goroutines at the end).
func TestFiftyRestarts(t *testing.T) {
	m := run(t, testConfig(t, ""))
	w := ready(t, m)
	var noticed, restarted time.Duration
	files, goroutines := openFiles(), runtime.NumGoroutine()
	const deaths = 50
	for range deaths {
		pid := m.Status().PID
		killed := time.Now()
		syscall.Kill(pid, syscall.SIGKILL)
		<-w.Gone()
		noticed += time.Since(killed)
		w = ready(t, m)
		restarted += time.Since(killed)
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	t.Logf("%d kills: noticed after %s, the next worker ready after %s (means)", deaths, noticed/deaths, restarted/deaths)
	if w.Incarnation != deaths+1 {
		t.Errorf("incarnation %d after %d deaths", w.Incarnation, deaths)
	}
	var f, g int
	for range 100 { // the last incarnation's goroutines take a moment to settle
		if f, g = openFiles(), runtime.NumGoroutine(); f <= files && g <= goroutines+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("descriptors %d, before %d; goroutines %d, before %d", f, files, g, goroutines)
}
