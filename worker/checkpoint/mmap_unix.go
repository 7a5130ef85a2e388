//go:build unix

package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file read-only. The bytes are valid until the returned function is called. An empty file has no bytes,
// and a file system that can't map (ENODEV) is read instead.
func mapFile(path string) ([]byte, func() error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // the mapping keeps the file alive
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	size := info.Size()
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("it is no regular file")
	}
	if size > math.MaxInt {
		return nil, nil, fmt.Errorf("it has %d bytes, more than the %d that can be mapped", size, math.MaxInt)
	}
	if size == 0 {
		return nil, func() error { return nil }, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if errors.Is(err, unix.ENODEV) {
		data, err = io.ReadAll(f)
		return data, func() error { return nil }, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes of %s: %w", size, path, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
