//go:build linux && amd64 && !nosim

package sim

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/cpu"
)

// maxArgs is the number of buffer arguments of a kernel: MAX_ARGS of sim.h.
const maxArgs = 31

// op is one dispatch: struct op of sim.h.
type op struct {
	kernel          uintptr
	trace           uintptr
	groups, threads [3]uint32
	count, level    uint32
	args            [maxArgs]uintptr
}

// failure is what went wrong: struct failure of sim.h.
type failure struct {
	code, op      uint32
	group         [3]uint32
	thread        uint32
	site, other   uint64
	address       uint64
	what, binding uint32
}

// cpuRuntime is the fiber runtime, loaded once in a process. It runs one list of dispatches at a time.
type cpuRuntime struct {
	run, threads uintptr
	asan         bool
	malloc       uintptr // posix_memalign
	free         uintptr
	lock         sync.Mutex
	args         [5]uintptr // of the run in progress
	failed       failure    // of the last run
}

var loaded struct {
	sync.Mutex
	runtime *cpuRuntime
}

// loadRuntime compiles the runtime, or finds it compiled, and loads it.
func loadRuntime(t *toolchain) (*cpuRuntime, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.runtime != nil {
		return loaded.runtime, nil
	}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil, errors.New("sim:cpu needs a CPU with AVX2, FMA and F16C")
	}
	path, err := t.compileRuntime()
	if err != nil {
		return nil, fmt.Errorf("compiling the simulator's runtime: %w", err)
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("loading the simulator's runtime: %w", err)
	}
	r := &cpuRuntime{}
	for _, f := range []struct {
		library uintptr
		name    string
		at      *uintptr
	}{
		{library, "sim_run", &r.run}, {library, "sim_threads", &r.threads},
		{purego.RTLD_DEFAULT, "posix_memalign", &r.malloc}, {purego.RTLD_DEFAULT, "free", &r.free}, // AddressSanitizer's, where it is loaded
	} {
		if *f.at, err = purego.Dlsym(f.library, f.name); err != nil {
			return nil, fmt.Errorf("loading the simulator's runtime: %w", err)
		}
	}
	_, missing := purego.Dlsym(purego.RTLD_DEFAULT, "__asan_init")
	r.asan = missing == nil
	loaded.runtime = r
	return r, nil
}
