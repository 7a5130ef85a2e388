//go:build !linux

package process

import "syscall"

// workerAttr gives the worker a process group of its own, so that a terminal's Ctrl-C reaches only the supervisor.
func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
