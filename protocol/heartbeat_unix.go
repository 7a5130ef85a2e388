//go:build unix

package protocol

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapPage maps the first size bytes of f, shared with the other process. The descriptor may be closed afterwards.
func mapPage(f *os.File, size int) ([]byte, func() error, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
