//go:build !unix

package checkpoint

import "os"

// mapFile reads the file: this platform has no mapping that we use.
func mapFile(path string) ([]byte, func() error, error) {
	data, err := os.ReadFile(path)
	return data, func() error { return nil }, err
}
