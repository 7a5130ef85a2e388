// Package metal is a small typed API for compute on Metal: libraries of kernels, buffers, passes. A Device stands for a
// Mac's GPU (package apple) or for a simulated one (package sim) and checks on both what Apple's runtime demands and would
// answer with an abort, a dropped dispatch or nothing at all. Package metal must not import anything of ours.
//
// All calls come from one locked OS thread, but Buffer.Read and Buffer.Write. Lifetimes are explicit: what a method made
// is closed by its owner, before the Device. Using a closed object is an error.
package metal

import (
	"errors"
	"fmt"
	"slices"
)

// Limits that hold on every GPU from Apple7 on (Metal Feature Set Tables).
const (
	MaxBytes             = 4096 // of Launch.Bytes
	MaxThreads           = 1024 // of a threadgroup; a pipeline may allow fewer
	MaxBuffers           = 31   // buffer indices of a kernel, Launch.Bytes included
	MaxThreadgroupMemory = 32 << 10
	SimdWidth            = 32
)

// ErrClosed is wrapped by the error of a method of a closed object.
var ErrClosed = errors.New("already closed")

// ErrNoSharedMemory is returned by WrapBuffer where the GPU can't use the CPU's memory.
var ErrNoSharedMemory = errors.New("this GPU can't use the CPU's memory")

// Info describes a GPU.
type Info struct {
	Driver     string // "metal", "sim:cpu", "sim:cuda", "sim:count"
	Name       string // as the system names it
	Family     int    // 7 for Apple7 (M1), 8, 9, 10; 0 where unknown
	Cores      int    // GPU cores; 0 where unknown
	OS         string // name, version and build
	MaxBuffer  int64  // bytes of the largest buffer
	WorkingSet int64  // bytes that can stay resident together (recommendedMaxWorkingSetSize)
	Shared     bool   // CPU and GPU share memory: Buffer.Memory is not nil
}

// Device is one GPU.
type Device struct {
	driver Driver
	info   Info
	open   int // objects made and not closed yet
	// closings counts the objects closed so far: what was usable at the same count still is.
	closings int
	encoding *Pass // the pass being encoded, nil for none
	closed   bool
}

// NewDevice makes a Device of a driver; packages apple and sim call it.
func NewDevice(driver Driver) *Device { return &Device{driver: driver, info: driver.Info()} }

// Info describes the GPU.
func (d *Device) Info() Info { return d.info }

// Close frees the device. It is an error while objects made by it are open.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	if d.open > 0 {
		return fmt.Errorf("closing GPU %s: %d of its objects are still open", d.info.Name, d.open)
	}
	d.closed = true
	return d.driver.Close()
}

// forget counts an object that is closed now.
func (d *Device) forget() {
	d.open--
	d.closings++
}

func (d *Device) check(what string) error {
	if d.closed {
		return fmt.Errorf("%s on GPU %s: %w", what, d.info.Name, ErrClosed)
	}
	return nil
}

// Library is compiled MSL source.
type Library struct {
	device *Device
	driver DriverLibrary
	name   string
	closed bool
}

// NewLibrary compiles source; name is for messages. What the compiler refuses is a *CompileError.
func (d *Device) NewLibrary(name, source string) (*Library, error) {
	if err := d.check("compiling " + name); err != nil {
		return nil, err
	}
	l, err := d.driver.NewLibrary(name, source)
	if err != nil {
		return nil, fmt.Errorf("compiling %s: %w", name, err)
	}
	d.open++
	return &Library{device: d, driver: l, name: name}, nil
}

// Close frees the library; its pipelines stay usable. It is safe to call twice.
func (l *Library) Close() {
	if !l.closed {
		l.closed = true
		l.device.forget()
		l.driver.Close()
	}
}

// Pipeline is one kernel of a library, specialised by function constants.
type Pipeline struct {
	device     *Device
	driver     DriverPipeline
	name       string
	maxThreads int
	closed     bool
}

// NewPipeline specialises a kernel. Every function constant that the kernel uses needs a value of its MSL type.
func (l *Library) NewPipeline(function string, constants ...Constant) (*Pipeline, error) {
	what := "pipeline " + function + " of " + l.name
	if err := l.device.check(what); err != nil {
		return nil, err
	}
	if l.closed {
		return nil, fmt.Errorf("%s: library %w", what, ErrClosed)
	}
	if err := checkConstants(constants); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	p, err := l.driver.NewPipeline(function, slices.Clone(constants))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if n := p.ThreadgroupMemory(); n > MaxThreadgroupMemory {
		p.Close()
		return nil, fmt.Errorf("%s: %d bytes of threadgroup memory, at most %d exist", what, n, MaxThreadgroupMemory)
	}
	l.device.open++
	return &Pipeline{device: l.device, driver: p, name: function, maxThreads: min(p.MaxThreads(), MaxThreads)}, nil
}

// Name is the kernel's name.
func (p *Pipeline) Name() string { return p.name }

// MaxThreads is the most threads of a threadgroup of this pipeline.
func (p *Pipeline) MaxThreads() int { return p.maxThreads }

// ThreadgroupMemory is the bytes of threadgroup memory that the kernel declares.
func (p *Pipeline) ThreadgroupMemory() int { return p.driver.ThreadgroupMemory() }

// Driver is for drivers.
func (p *Pipeline) Driver() DriverPipeline { return p.driver }

// Close frees the pipeline. It is safe to call twice.
func (p *Pipeline) Close() {
	if !p.closed {
		p.closed = true
		p.device.forget()
		p.driver.Close()
	}
}
