//go:build linux && !nosim

package sim

import (
	"runtime"
	"unsafe"
)

// cudaBuffer is memory of the GPU. Copies use a stream of their own: they neither wait for passes nor delay them.
type cudaBuffer struct {
	driver *cudaDriver
	at     uintptr // GPU address, a multiple of bufferAlign
	memory uintptr // what was allocated
	length int64
}

const bufferAlign = 16 << 10 // metal.Driver promises a page of Apple silicon

func (d *cudaDriver) newBuffer(length int64) (*cudaBuffer, error) {
	leave := d.enter()
	defer leave()
	b := &cudaBuffer{driver: d, length: length}
	if err := d.call("allocating GPU memory", d.memAlloc, uintptr(unsafe.Pointer(&b.memory)), uintptr(length)+bufferAlign-1); err != nil {
		return nil, err
	}
	b.at = (b.memory + bufferAlign - 1) &^ (bufferAlign - 1)
	fill := uintptr(0)
	if d.poison {
		fill = 0xff // floats and bfloats of all ones are NaN
	}
	err := d.call("filling GPU memory", d.memSet, b.at, fill, uintptr(length), d.copies)
	if err == nil {
		err = d.call("filling GPU memory", d.streamWait, d.copies)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Read copies from the GPU.
func (b *cudaBuffer) Read(dst []byte, offset int64) error {
	return b.copy("reading GPU memory", b.driver.toHost, dst, offset, false)
}

// Write copies to the GPU and returns when the bytes are there.
func (b *cudaBuffer) Write(src []byte, offset int64) error {
	return b.copy("writing GPU memory", b.driver.toDevice, src, offset, true)
}

// copy moves bytes between the CPU and the GPU. It waits: a copy of pageable memory may return before it has arrived.
func (b *cudaBuffer) copy(what string, function uintptr, bytes []byte, offset int64, in bool) error {
	if len(bytes) == 0 {
		return nil
	}
	leave := b.driver.enter()
	defer leave()
	host, gpu := uintptr(unsafe.Pointer(unsafe.SliceData(bytes))), b.at+uintptr(offset)
	if in {
		host, gpu = gpu, host // cuMemcpyHtoD(gpu, host), cuMemcpyDtoH(host, gpu)
	}
	err := b.driver.call(what, function, host, gpu, uintptr(len(bytes)), b.driver.copies)
	if err == nil {
		err = b.driver.call(what, b.driver.streamWait, b.driver.copies)
	}
	runtime.KeepAlive(bytes)
	return err
}

// Memory is nil: the CPU has no view of the GPU's memory.
func (b *cudaBuffer) Memory() []byte { return nil }

// Close frees the memory.
func (b *cudaBuffer) Close() {
	leave := b.driver.enter()
	defer leave()
	_ = b.driver.call("freeing GPU memory", b.driver.memFree, b.memory) // fails only after a pass did, which said so
}
