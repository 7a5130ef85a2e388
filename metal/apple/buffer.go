package apple

import (
	"fmt"
	"unsafe"

	"lilypad/metal"
)

// bufferOptions is MTLResourceStorageModeShared with MTLResourceHazardTrackingModeUntracked: passes order their
// dispatches by barriers and each other by a fence.
const bufferOptions = 1 << 8

const pageSize = 16 << 10

type buffer struct {
	d      *driver
	object uintptr // MTLBuffer
	memory []byte
}

// NewBuffer makes a buffer of whole pages: smaller ones may share a page, and then don't begin at one.
func (d *driver) NewBuffer(length int64) (metal.DriverBuffer, error) {
	if err := d.here(); err != nil {
		return nil, err
	}
	defer d.r.drain(d.r.pool())
	whole := min((length+pageSize-1)/pageSize*pageSize, d.info.MaxBuffer)
	return d.newBuffer(d.r.send(d.device, selNewBuffer, uintptr(whole), bufferOptions), length)
}

// WrapBuffer makes a buffer of memory which stays the caller's: there is no deallocator.
func (d *driver) WrapBuffer(memory []byte) (metal.DriverBuffer, error) {
	if err := d.here(); err != nil {
		return nil, err
	}
	if !d.info.Shared {
		return nil, metal.ErrNoSharedMemory
	}
	defer d.r.drain(d.r.pool())
	at := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	return d.newBuffer(d.r.send(d.device, selNewBufferNoCopy, at, uintptr(len(memory)), bufferOptions, 0), int64(len(memory)))
}

// newBuffer takes over a new MTLBuffer of length bytes or more.
func (d *driver) newBuffer(object uintptr, length int64) (metal.DriverBuffer, error) {
	if object == 0 {
		return nil, fmt.Errorf("GPU %s has no memory left (working set: %d bytes)", d.info.Name, d.info.WorkingSet)
	}
	if err := d.r.knows(object, "MTLBuffer"); err != nil {
		d.r.release(object)
		return nil, err
	}
	at := d.r.send(object, selContents)
	if at == 0 {
		d.r.release(object)
		return nil, fmt.Errorf("GPU %s gives a buffer that the CPU can't see", d.info.Name)
	}
	d.residency.add(d.r, object)
	return &buffer{d: d, object: object, memory: unsafe.Slice((*byte)(pointer(at)), length)}, nil
}

func (b *buffer) Read(dst []byte, offset int64) error  { copy(dst, b.memory[offset:]); return nil }
func (b *buffer) Write(src []byte, offset int64) error { copy(b.memory[offset:], src); return nil }
func (b *buffer) Memory() []byte                       { return b.memory }

func (b *buffer) Close() {
	defer b.d.r.drain(b.d.r.pool())
	b.d.residency.remove(b.d.r, b.object)
	b.d.r.release(b.object)
	b.object, b.memory = 0, nil
}
