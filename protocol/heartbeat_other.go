//go:build !unix

package protocol

import "os"

// mapPage gives plain memory where files can't be mapped this way: each process then sees only its own writes, so the
// supervisor notices a stall by its pings alone.
func mapPage(f *os.File, size int) ([]byte, func() error, error) {
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, nil, err
	}
	return b, func() error { return nil }, nil
}
