package process

import "syscall"

// workerAttr gives the worker a process group of its own, so that a terminal's Ctrl-C reaches only the supervisor, and
// lets the kernel kill it with us, should its own lifeline be stuck.
func workerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
