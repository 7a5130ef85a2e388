package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

const supervisorEnv = "LILYPAD_TEST_SUPERVISOR"

// superviseForEver is the whole supervisor of TestSupervisorKilled. It writes the worker's pid to dir.
func superviseForEver(dir string) {
	m := New(Config{Command: []string{os.Args[0]}, Env: os.Environ(), RunDir: dir, Pressure: func() Pressure { return Pressure{} }}, logrus.New())
	go m.Run(context.Background())
	if _, err := m.Worker(context.Background()); err != nil {
		os.Exit(1)
	}
	os.WriteFile(filepath.Join(dir, "pid.tmp"), []byte(strconv.Itoa(m.Status().PID)), 0o600)
	os.Rename(filepath.Join(dir, "pid.tmp"), filepath.Join(dir, "pid"))
	select {}
}

// The worker goes with its supervisor: by the kernel where it can, by the lifeline alone, and also while it is stopped.
func TestSupervisorKilled(t *testing.T) {
	for _, how := range []string{"kernel", "lifeline", "stopped"} {
		t.Run(how, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "lp")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), supervisorEnv+"="+dir)
			if how == "lifeline" {
				cmd.Env = append(cmd.Env, lifelineEnv+"=1")
			}
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
			if how == "stopped" {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			cmd.Process.Kill()
			cmd.Wait()
			began := time.Now()
			for running(pid) {
				if time.Since(began) > 2*time.Second { // the promise of the design
					syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("worker outlives its supervisor by two seconds")
				}
				time.Sleep(time.Millisecond)
			}
			t.Logf("worker gone %s after its supervisor", time.Since(began).Round(time.Millisecond))
		})
	}
}

// running reports whether a process is there and not only waiting to be reaped by pid 1.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
		return !strings.HasPrefix(state, "Z")
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if _, ended := err.(*exec.ExitError); ended {
		return false // ps knows no such process
	}
	return err != nil || !bytes.HasPrefix(bytes.TrimSpace(out), []byte("Z")) // without ps it counts as running: the test must not pass blindly
}
