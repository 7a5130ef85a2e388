//go:build linux && amd64 && !nosim

package sim

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/ebitengine/purego"

	"lilypad/metal"
)

// cpuDriver is sim:cpu. Committed passes run one after another on a goroutine of their own.
type cpuDriver struct {
	*cpuRuntime
	tools   *toolchain
	options Options
	mode    mode
	seed    uint64 // 0: in order, on all cores
	workers int
	info    metal.Info
	queue   chan *cpuPass
	stopped chan struct{}
}

func openCPU(o Options) (metal.Driver, error) {
	tools, err := newToolchain(o.CacheDir)
	if err != nil {
		return nil, err
	}
	r, err := loadRuntime(tools)
	if err != nil {
		return nil, err
	}
	d := &cpuDriver{cpuRuntime: r, tools: tools, options: o, queue: make(chan *cpuPass, 64), stopped: make(chan struct{})}
	d.mode = mode{check: o.Check, asan: r.asan}
	threads := o.Threads
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	if d.mode.check || d.mode.asan {
		threads = 1
		d.seed = o.Seed
		if d.seed == 0 {
			d.seed = 0x9e3779b97f4a7c15
		}
	}
	r.lock.Lock()
	n, _, _ := purego.SyscallN(r.threads, uintptr(threads))
	r.lock.Unlock()
	if n == 0 {
		return nil, fmt.Errorf("the simulator has no memory for the stacks of its threads")
	}
	d.workers = int(n)
	d.info = cpuInfo(d.workers)
	go d.execute()
	return d, nil
}

func cpuInfo(workers int) metal.Info {
	info := metal.Info{Driver: "sim:cpu", Name: "simulated GPU", Family: 7, Cores: workers, OS: runtime.GOOS, Shared: true}
	var memory syscall.Sysinfo_t
	if syscall.Sysinfo(&memory) == nil {
		total := int64(memory.Totalram) * int64(memory.Unit)
		info.MaxBuffer, info.WorkingSet = total/2, total/4*3
	} else {
		info.MaxBuffer, info.WorkingSet = 1<<32, 1<<32
	}
	return info
}

// Info describes the machine as if it were a GPU of family Apple7.
func (d *cpuDriver) Info() metal.Info { return d.info }

// Close ends the goroutine that runs passes.
func (d *cpuDriver) Close() error {
	close(d.queue)
	<-d.stopped
	return nil
}
