//go:build linux && amd64 && !nosim

package sim

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"

	"lilypad/metal"
)

const cpuPage = 16 << 10 // Apple silicon's

// cpuBuffer is memory outside Go's heap. Under AddressSanitizer it comes from the C allocator, so that it has redzones.
type cpuBuffer struct {
	memory []byte
	whole  []byte  // what was mapped
	block  uintptr // what was allocated
	free   uintptr // the C function
}

// NewBuffer makes zeroed (or poisoned) memory.
func (d *cpuDriver) NewBuffer(length int64) (metal.DriverBuffer, error) {
	b := &cpuBuffer{free: d.free}
	if d.asan {
		if code, _, _ := purego.SyscallN(d.malloc, uintptr(unsafe.Pointer(&b.block)), cpuPage, uintptr(length)); code != 0 {
			return nil, &metal.PassError{Failure: metal.OutOfMemory, Code: int(code), Text: fmt.Sprintf("allocating %d bytes", length)}
		}
		b.memory = unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&b.block))), length)
		clear(b.memory)
	} else {
		whole, err := syscall.Mmap(-1, 0, int(length)+cpuPage, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return nil, &metal.PassError{Failure: metal.OutOfMemory, Text: fmt.Sprintf("mapping %d bytes: %v", length, err)}
		}
		start := -uintptr(unsafe.Pointer(unsafe.SliceData(whole))) % cpuPage
		b.whole, b.memory = whole, whole[start:][:length:length]
	}
	if d.options.Poison {
		for i := range b.memory {
			b.memory[i] = 0xff
		}
	}
	return b, nil
}

// WrapBuffer uses the caller's memory.
func (d *cpuDriver) WrapBuffer(memory []byte) (metal.DriverBuffer, error) {
	return &cpuBuffer{memory: memory}, nil
}

func (b *cpuBuffer) address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))) }

// Memory is the buffer itself.
func (b *cpuBuffer) Memory() []byte { return b.memory }

// Read copies from the buffer.
func (b *cpuBuffer) Read(dst []byte, offset int64) error {
	copy(dst, b.memory[offset:])
	return nil
}

// Write copies into the buffer.
func (b *cpuBuffer) Write(src []byte, offset int64) error {
	copy(b.memory[offset:], src)
	return nil
}

// Close gives the memory back.
func (b *cpuBuffer) Close() {
	if b.block != 0 {
		purego.SyscallN(b.free, b.block)
	}
	if b.whole != nil {
		_ = syscall.Munmap(b.whole) // fails only for memory that was not mapped
	}
	b.memory, b.whole, b.block = nil, nil, 0
}
