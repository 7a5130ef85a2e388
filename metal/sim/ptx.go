package sim

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"lilypad/metal"
	"lilypad/metal/sim/msl"
)

// ptxMaker makes PTX of kernels with clang, or finds it among what was made before: a machine with an NVIDIA GPU needs no
// clang if the directory is carried there.
type ptxMaker struct {
	dir      string // of finished PTX, one file for each kernel
	cacheDir string // Options.CacheDir
	tools    *toolchain
}

// newPTXMaker keeps PTX where the environment variable LILYPAD_PTX says, or else with everything else that is compiled.
func newPTXMaker(o Options) *ptxMaker {
	return &ptxMaker{dir: cmp.Or(os.Getenv("LILYPAD_PTX"), cachePath(o.CacheDir)), cacheDir: o.CacheDir}
}

// ptxSource is a source that the front end accepted.
type ptxSource struct{ unit *msl.Unit }

// ptxKernel is a kernel, compiled.
type ptxKernel struct {
	text       string // the PTX of a module with this one kernel
	arguments  int
	constants  int // bytes of the last argument where it is passed by value, else 0
	maxThreads int // that the kernel declares; 0 for none
}

func (m *ptxMaker) translate(source string) (*ptxSource, error) {
	unit, err := msl.Translate(source)
	if err != nil {
		return nil, err
	}
	return &ptxSource{unit}, nil
}

// ptxRevision stands in every cache key. It grows with what passes over the compiler's output here.
const ptxRevision = "ptx 4"

// kernel returns the PTX of a kernel for these constants.
func (m *ptxMaker) kernel(s *ptxSource, function string, constants []metal.Constant) (*ptxKernel, error) {
	if err := s.unit.Check(function, constants); err != nil {
		return nil, err
	}
	k := s.unit.Kernel(function)
	text, err := s.unit.C(constants)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(m.dir, ptxKey(text, function)+".ptx")
	if ptx, err := os.ReadFile(path); err == nil {
		return newPTXKernel(k, string(ptx)), nil
	}
	ptx, err := m.compile(text, function)
	if err != nil {
		return nil, err
	}
	if ptx, err = finishPTX(ptx, k); err != nil {
		return nil, err
	}
	if err := writeWhole(path, []byte(ptx)); err != nil {
		return nil, fmt.Errorf("keeping the PTX of %s: %w", function, err)
	}
	return newPTXKernel(k, ptx), nil
}

// ptxKey names a kernel's PTX by everything that it depends on but the compiler's version.
func ptxKey(text, function string) string {
	h := sha256.New()
	fmt.Fprintln(h, ptxRevision, ptxFrontFlags, ptxBackFlags, function, ptxHeaderHash())
	h.Write([]byte(text))
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// ptxHeaderHash identifies what kernels for the GPU include.
var ptxHeaderHash = sync.OnceValue(func() string {
	return hashFiles(func(name string) bool {
		return name != "sim.h" && !strings.HasPrefix(name, "cpu") && !strings.HasSuffix(name, ".c")
	})
})

// finishPTX makes what the driver loads of what the compiler wrote: one kernel, its constants passed by value.
func finishPTX(ptx string, k *msl.Kernel) (string, error) {
	ptx, err := onlyKernel(ptx, k.Name)
	if err != nil {
		return "", err
	}
	ptx = fuseMasks(ptx)
	if err := checkPTX(ptx); err != nil {
		return "", fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	if byValue(k) {
		if ptx, _, err = passByValue(ptx, k.Name, len(k.Args)-1); err != nil {
			return "", err
		}
	}
	ptx = holdLoads(ptx)
	if k.MaxThreads > 0 {
		ptx, err = limitThreads(ptx, k.Name, k.MaxThreads)
	}
	return ptx, err
}

// byValue reports whether a kernel's last argument is what Launch.Bytes sets: a constant reference. Buffers are bound to
// pointers.
func byValue(k *msl.Kernel) bool {
	n := len(k.Args)
	return n > 0 && k.Args[n-1].Space == "constant" && k.Args[n-1].Reference
}

var constantsSize = regexp.MustCompile(`\.param \.align 16 \.b8 \w+\[(\d+)\]`)

func newPTXKernel(k *msl.Kernel, ptx string) *ptxKernel {
	p := &ptxKernel{text: ptx, arguments: len(k.Args), maxThreads: k.MaxThreads}
	if m := constantsSize.FindStringSubmatch(ptx); m != nil {
		p.constants, _ = strconv.Atoi(m[1])
	}
	return p
}

// writeWhole writes a file that others see whole or not at all.
func writeWhole(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
