package process

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownedByUs reports whether the file's owner is the user we run as.
func ownedByUs(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// spawn starts cmd on a thread that lives as long as the process, calls exited with its state and reports whether it
// started. The thread matters on Linux: the parent-death signal is sent when the spawning thread ends.
func spawn(cmd *exec.Cmd, exited func(*os.ProcessState)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // the state tells more than its error
			exited(cmd.ProcessState)
		}
	}()
	return <-started
}
