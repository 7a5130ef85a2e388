package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestSupervisorKilled(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		dir, err := os.MkdirTemp("/tmp", "lp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), supervisorEnv+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		for pid == 0 {
			time.Sleep(5 * time.Millisecond)
			b, _ := os.ReadFile(filepath.Join(dir, "pid"))
			pid, _ = strconv.Atoi(string(b))
		}
		if group, _ := syscall.Getpgid(pid); group != pid {
			t.Errorf("worker %d is in group %d, want its own", pid, group)
		}
		cmd.Process.Kill()
		cmd.Wait()
		began := time.Now()
		for syscall.Kill(pid, 0) == nil {
			if time.Since(began) > 2*time.Second {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Fatal("worker outlives its supervisor by two seconds")
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("worker gone %s after its supervisor", time.Since(began).Round(time.Millisecond))
		_ = stopped
	}
}
