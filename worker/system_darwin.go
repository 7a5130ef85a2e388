package worker

import "golang.org/x/sys/unix"

// physicalMemory is the memory of this machine in bytes; 0 when unknown.
func physicalMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

// memoryPressed says that the system asks for memory back: its level of pressure is 2 (warn) or 4 (critical).
func memoryPressed() bool {
	level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	return err == nil && level >= 2
}

// redirect makes descriptor to mean what from means.
func redirect(from, to int) error { return unix.Dup2(from, to) }

// duplicate is a new descriptor for what fd means, closed in children.
func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }
