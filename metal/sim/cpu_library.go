//go:build linux && amd64 && !nosim

package sim

import (
	"debug/elf"
	"fmt"
	"strings"

	"github.com/ebitengine/purego"

	"lilypad/metal"
	"lilypad/metal/sim/msl"
)

// cpuLibrary is a source that the front end and clang accept.
type cpuLibrary struct {
	driver *cpuDriver
	unit   *msl.Unit
}

// NewLibrary translates and checks source. Code is made for each pipeline.
func (d *cpuDriver) NewLibrary(_, source string) (metal.DriverLibrary, error) {
	unit, err := msl.Translate(source)
	if err != nil {
		return nil, err
	}
	if err := d.tools.checkSyntax(unit.Probe()); err != nil {
		return nil, err
	}
	return &cpuLibrary{d, unit}, nil
}

// Close has nothing to free.
func (l *cpuLibrary) Close() {}

// cpuPipeline is a kernel in a shared library of its own.
type cpuPipeline struct {
	kernel  *msl.Kernel
	library uintptr
	entry   uintptr
	path    string
	offset  uint64  // of entry in the library
	size    uintptr // of the library in memory
	memory  int     // bytes of threadgroup arrays
}

// NewPipeline compiles the kernel for these constants and loads it.
func (l *cpuLibrary) NewPipeline(function string, constants []metal.Constant) (metal.DriverPipeline, error) {
	k, err := findKernel(l.unit, function)
	if err != nil {
		return nil, err
	}
	text, err := l.unit.C(constants)
	if err != nil {
		return nil, err
	}
	p := &cpuPipeline{kernel: k}
	if p.path, err = l.driver.tools.compile(text, function, l.driver.mode); err != nil {
		return nil, err
	}
	if p.library, err = purego.Dlopen(p.path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		return nil, fmt.Errorf("loading the compiled kernel: %w", err)
	}
	if p.entry, err = purego.Dlsym(p.library, function); err != nil {
		return nil, fmt.Errorf("loading the compiled kernel: %w", err)
	}
	return p, p.inspect(function, l.driver.mode.asan)
}

// inspect reads symbols of the library: the kernel's place and the sizes of its threadgroup arrays, which are C++ locals
// of static storage (_ZZ...).
func (p *cpuPipeline) inspect(function string, asan bool) error {
	f, err := elf.Open(p.path)
	if err != nil {
		return fmt.Errorf("reading the compiled kernel: %w", err)
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_LOAD {
			p.size = max(p.size, uintptr(s.Vaddr+s.Memsz))
		}
	}
	symbols, err := f.Symbols()
	if err != nil {
		return fmt.Errorf("reading the compiled kernel: %w", err)
	}
	for _, s := range symbols {
		writable := int(s.Section) < len(f.Sections) && f.Sections[s.Section].Flags&elf.SHF_WRITE != 0
		if strings.HasPrefix(s.Name, "_ZZ") && writable {
			if asan {
				s.Size = withoutRedzone(s.Size)
			}
			p.memory += int(s.Size)
		}
		if s.Name == function {
			p.offset = s.Value
		}
	}
	return nil
}

// withoutRedzone is the size of a variable that has size bytes with the redzone of AddressSanitizer behind it: a quarter of it
// in whole 32 bytes, from 32 bytes to 256 KiB, after what completes 32 bytes (getRedzoneSizeForGlobal of LLVM 16).
func withoutRedzone(size uint64) uint64 {
	const unit = 32
	for n := size; n > 0; n-- {
		zone := min(max(n/unit/4*unit, unit), 1<<18)
		if n%unit != 0 {
			zone += unit - n%unit
		}
		if n <= unit/2 {
			zone = unit - n
		}
		if n+zone == size {
			return n
		}
	}
	return size
}

// MaxThreads is what the kernel declares, or the most that exist.
func (p *cpuPipeline) MaxThreads() int {
	if p.kernel.MaxThreads > 0 {
		return p.kernel.MaxThreads
	}
	return metal.MaxThreads
}

// ThreadgroupMemory is the size of the kernel's threadgroup arrays that are used.
func (p *cpuPipeline) ThreadgroupMemory() int { return p.memory }

// Close unloads the code.
func (p *cpuPipeline) Close() { _ = purego.Dlclose(p.library) }
