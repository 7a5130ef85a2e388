package process

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunDir(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "lp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "deep", "run")
	for range 2 {
		got, err := openRunDir(dir)
		if err != nil || got != dir {
			t.Fatalf("got %q, %v", got, err)
		}
		if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
			t.Errorf("mode %v", st.Mode())
		}
		os.Chmod(dir, 0o755)
	}
	if got, err := openRunDir(filepath.Join(base, strings.Repeat("x", maxRunDir))); err != nil || len(got) > maxRunDir {
		t.Errorf("long name: got %q, %v", got, err)
	}
	link := filepath.Join(base, "link")
	os.Symlink(dir, link)
	if _, err := openRunDir(link); err == nil {
		t.Error("a link was accepted")
	}
}

func TestLeftovers(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "lp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	socket := func(name string, closed bool) {
		dir := filepath.Join(base, name)
		os.Mkdir(dir, 0o700)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "plugin1"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if closed {
			l.Close()
		} else {
			t.Cleanup(func() { l.Close() })
		}
	}
	socket("plugin-dir-dead", true)
	socket("plugin-dir-live", false)
	os.Mkdir(filepath.Join(base, "plugin-dir-young"), 0o700)
	os.Mkdir(filepath.Join(base, "other"), 0o700)
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"plugin-dir-dead", "plugin-dir-live", "other"} {
		os.Chtimes(filepath.Join(base, name), old, old)
	}
	removeLeftovers(base, time.Now())
	for name, want := range map[string]bool{"plugin-dir-dead": false, "plugin-dir-live": true, "plugin-dir-young": true, "other": true} {
		if _, err := os.Stat(filepath.Join(base, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}
