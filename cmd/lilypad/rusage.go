package main

import (
	"runtime"
	"syscall"
	"time"
)

// cpuTime is the user and system time that this process has used.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// childrenPeak is the largest resident size, in bytes, of any child that has been waited for.
func childrenPeak() int64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(r.Maxrss) // bytes there, KiB on Linux
	}
	return int64(r.Maxrss) * 1024
}
