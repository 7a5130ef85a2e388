//go:build linux && !nosim

package sim

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"lilypad/metal"
)

// cudaDriver runs kernels on an NVIDIA GPU, from PTX that a ptxMaker makes or finds. All passes go into one stream.
type cudaDriver struct {
	*cuda
	ptx      *ptxMaker
	info     metal.Info
	device   uintptr
	context  uintptr
	passes   uintptr // the stream of all passes
	copies   uintptr // the stream of Buffer.Read and Write
	base     uintptr // the event that Pass.Times counts from
	poison   bool
	overlap  bool // launches may begin while the one before ends (cuda_overlap.go)
	counters counterMemory
	args     [12]uintptr // of the launch being issued
}

// openCUDADriver opens the first NVIDIA GPU.
func openCUDADriver(o Options) (metal.Driver, error) {
	c, err := openCUDA()
	if err != nil {
		return nil, err
	}
	d := &cudaDriver{cuda: c, ptx: newPTXMaker(o), poison: o.Poison}
	if err := d.open(); err != nil {
		d.Close()
		return nil, fmt.Errorf("opening an NVIDIA GPU: %w", err)
	}
	return d, nil
}

func (d *cudaDriver) open() error {
	var device int32
	if err := d.call("starting CUDA", d.init, 0); err != nil {
		return err
	}
	if err := d.call("finding a GPU", d.deviceGet, uintptr(unsafe.Pointer(&device)), 0); err != nil {
		return err
	}
	d.device = uintptr(device)
	if err := d.call("making a context", d.contextRetain, uintptr(unsafe.Pointer(&d.context)), d.device); err != nil {
		return err
	}
	leave := d.enter()
	defer leave()
	const nonBlocking = 1 // apart from the legacy default stream
	for _, stream := range []*uintptr{&d.passes, &d.copies} {
		if err := d.call("making a stream", d.streamCreate, uintptr(unsafe.Pointer(stream)), nonBlocking); err != nil {
			return err
		}
	}
	if err := d.call("making an event", d.eventCreate, uintptr(unsafe.Pointer(&d.base)), 0); err != nil {
		return err
	}
	if err := d.call("recording an event", d.eventRecord, d.base, d.passes); err != nil {
		return err
	}
	if err := d.counters.open(d); err != nil {
		return err
	}
	return d.describeGPU()
}

// describeGPU fills info.
func (d *cudaDriver) describeGPU() error {
	var name [256]byte
	var free, total uintptr
	if err := d.call("naming the GPU", d.deviceName, uintptr(unsafe.Pointer(&name)), uintptr(len(name)), d.device); err != nil {
		return err
	}
	if err := d.call("asking for the GPU's memory", d.memInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total))); err != nil {
		return err
	}
	const multiprocessors, major = 16, 75 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _COMPUTE_CAPABILITY_MAJOR
	var values [2]int32
	for i, attribute := range []uintptr{multiprocessors, major} {
		if err := d.call("asking for an attribute", d.deviceAttribute, uintptr(unsafe.Pointer(&values[i])), attribute, d.device); err != nil {
			return err
		}
	}
	text, _, _ := strings.Cut(string(name[:]), "\x00")
	d.overlap = values[1] >= 9 && os.Getenv("LILYPAD_CUDA_OVERLAP") != "0" // 0: to measure what it brings
	d.info = metal.Info{
		Driver: "sim:cuda", Name: text, Cores: int(values[0]), OS: runtime.GOOS,
		MaxBuffer: int64(free), WorkingSet: int64(free) / 64 * 63,
	}
	return nil
}

// enter makes the GPU's context current on this thread until leave is called.
func (d *cudaDriver) enter() (leave func()) {
	runtime.LockOSThread()
	_ = d.call("choosing the GPU", d.contextSet, d.context) // fails only with what the call after it fails with
	return runtime.UnlockOSThread
}

// Info describes the GPU.
func (d *cudaDriver) Info() metal.Info { return d.info }

// NewBuffer makes zeroed (or poisoned) memory of the GPU.
func (d *cudaDriver) NewBuffer(length int64) (metal.DriverBuffer, error) {
	b, err := d.newBuffer(length)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// WrapBuffer fails: the GPU has memory of its own.
func (d *cudaDriver) WrapBuffer([]byte) (metal.DriverBuffer, error) {
	return nil, metal.ErrNoSharedMemory
}

// Close gives the GPU back.
func (d *cudaDriver) Close() error {
	leave := d.enter()
	defer leave()
	d.counters.close(d)
	if d.base != 0 {
		_ = d.call("freeing an event", d.eventDestroy, d.base)
	}
	for _, stream := range []uintptr{d.passes, d.copies} {
		if stream != 0 {
			_ = d.call("freeing a stream", d.streamDestroy, stream)
		}
	}
	if d.context == 0 {
		return nil
	}
	return d.call("giving the GPU back", d.contextRelease, d.device)
}
