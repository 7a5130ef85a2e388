package worker

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physicalMemory is the memory of this machine, or of the control group if that is less, in bytes; 0 when unknown.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	n := int64(info.Totalram) * int64(info.Unit)
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			n = min(n, limit)
		}
	}
	return n
}

// memoryPressed is false: Linux has no such level.
func memoryPressed() bool { return false }

// redirect makes descriptor to mean what from means.
func redirect(from, to int) error { return unix.Dup3(from, to, 0) }

// duplicate is a new descriptor for what fd means, closed in children.
func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }
