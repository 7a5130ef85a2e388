package sim

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"lilypad/metal"
)

// runtimeFiles are the header that kernels include and the C code that they run on.
//
//go:embed rt
var runtimeFiles embed.FS

// toolchain is clang, and a directory of what it made.
type toolchain struct {
	clang string // path
	id    string // changes when clang or the header does
	dir   string // the cache
}

// newToolchain finds clang and unpacks the runtime's files. cacheDir is Options.CacheDir.
func newToolchain(cacheDir string) (*toolchain, error) {
	clang, err := exec.LookPath("clang-16")
	if err != nil {
		return nil, ErrNoCompiler
	}
	info, err := os.Stat(clang)
	if err != nil {
		return nil, fmt.Errorf("looking at clang: %w", err)
	}
	t := &toolchain{clang: clang}
	t.id = fmt.Sprintln(clang, info.Size(), info.ModTime().UnixNano(), headerHash())
	t.dir = cachePath(cacheDir)
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache of compiled kernels: %w", err)
	}
	return t, t.unpack()
}

// cachePath is where compiled code is kept: given, or below the user's cache directory.
func cachePath(given string) string {
	if given != "" {
		return given
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir() // there is no home directory
	}
	return filepath.Join(base, "lilypad", "sim")
}

// runtimeHash identifies the embedded files.
var runtimeHash = sync.OnceValue(func() string { return hashFiles(func(string) bool { return true }) })

// headerHash identifies what kernels for the CPU include.
var headerHash = sync.OnceValue(func() string {
	return hashFiles(func(name string) bool {
		return name == "metal_stdlib" || strings.HasSuffix(name, ".h") && name != "sim.h" && !strings.HasPrefix(name, "ptx")
	})
})

func hashFiles(wanted func(name string) bool) string {
	h := sha256.New()
	_ = eachRuntimeFile(func(name string, data []byte) error {
		if wanted(name) {
			fmt.Fprintln(h, name, len(data))
			h.Write(data)
		}
		return nil
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

func eachRuntimeFile(do func(name string, data []byte) error) error {
	return fs.WalkDir(runtimeFiles, "rt", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := runtimeFiles.ReadFile(path)
		if err != nil {
			return err
		}
		return do(strings.TrimPrefix(path, "rt/"), data)
	})
}

// include is the directory of the unpacked files.
func (t *toolchain) include() string { return filepath.Join(t.dir, "rt-"+runtimeHash()) }

// unpack writes the embedded files into the cache. Several processes may do it at once.
func (t *toolchain) unpack() error {
	if _, err := os.Stat(filepath.Join(t.include(), "metal_stdlib")); err == nil {
		return nil
	}
	temp, err := os.MkdirTemp(t.dir, ".rt-*")
	if err != nil {
		return fmt.Errorf("unpacking the runtime: %w", err)
	}
	defer os.RemoveAll(temp)
	err = eachRuntimeFile(func(name string, data []byte) error { return os.WriteFile(filepath.Join(temp, name), data, 0o644) })
	if err != nil {
		return fmt.Errorf("unpacking the runtime: %w", err)
	}
	err = os.Rename(temp, t.include())
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		if _, missing := os.Stat(filepath.Join(t.include(), "metal_stdlib")); missing != nil {
			return fmt.Errorf("unpacking the runtime: %w", err)
		}
	}
	return nil
}

// cached returns the path of a file of the cache, made by make unless it is there. The key says what the file depends on
// besides clang and the runtime.
func (t *toolchain) cached(extension string, make func(path string) error, key ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, t.id)
	for _, k := range key {
		fmt.Fprintln(h, len(k), k)
	}
	path := filepath.Join(t.dir, fmt.Sprintf("%x%s", h.Sum(nil)[:16], extension))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	temp, err := os.MkdirTemp(t.dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("making room for compiled code: %w", err)
	}
	defer os.RemoveAll(temp)
	fresh := filepath.Join(temp, "new"+extension)
	if err := make(fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("keeping compiled code: %w", err)
	}
	return path, nil
}

// run calls clang with text as its input and returns its output. What it says against the text is a *metal.CompileError.
func (t *toolchain) run(text string, args ...string) ([]byte, error) {
	cmd := exec.Command(t.clang, args...)
	cmd.Stdin = strings.NewReader(text)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = withoutPreload(os.Environ())
	if err := cmd.Run(); err != nil {
		if complaints.Len() == 0 {
			return nil, fmt.Errorf("running clang: %w", err)
		}
		return nil, &metal.CompileError{Line: firstLine(complaints.String()), Text: strings.TrimSpace(complaints.String())}
	}
	return out.Bytes(), nil
}

// withoutPreload keeps what a test was started with away from clang.
func withoutPreload(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "LD_PRELOAD=") && !strings.HasPrefix(e, "ASAN_OPTIONS=") {
			kept = append(kept, e)
		}
	}
	return kept
}
