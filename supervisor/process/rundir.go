package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxRunDir keeps the path of a socket, RunDir/plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN, in the 104 bytes that macOS allows.
const maxRunDir = 64

// openRunDir makes the folder for sockets and removes what dead supervisors left in it.
func openRunDir(dir string) (string, error) {
	if dir == "" || len(dir) > maxRunDir {
		dir = fmt.Sprintf("/tmp/lilypad-%d", os.Getuid())
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("run folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("run folder: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("run folder: %w", err)
	}
	if !st.IsDir() || !ownedByUs(st) {
		return "", fmt.Errorf("run folder %s is not a folder of this user; choose another", dir)
	}
	if st.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", fmt.Errorf("run folder: %w", err)
		}
	}
	removeLeftovers(dir, time.Now())
	return dir, nil
}

// removeLeftovers deletes socket folders in which nobody listens. Young ones may belong to a supervisor that is starting.
func removeLeftovers(dir string, now time.Time) {
	old, _ := filepath.Glob(filepath.Join(dir, "plugin-dir*"))
	for _, d := range old {
		st, err := os.Stat(d)
		if err != nil || now.Sub(st.ModTime()) < time.Minute || listening(d) {
			continue
		}
		os.RemoveAll(d)
	}
}

// listening reports whether a socket in dir takes connections.
func listening(dir string) bool {
	sockets, _ := filepath.Glob(filepath.Join(dir, "plugin*"))
	for _, s := range sockets {
		if c, err := net.DialTimeout("unix", s, time.Second); err == nil {
			c.Close()
			return true
		}
	}
	return false
}
