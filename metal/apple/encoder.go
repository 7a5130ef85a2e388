package apple

import (
	"runtime"
	"unsafe"

	"lilypad/metal"
)

// launch is a dispatch as messages want it, in memory that does not move. Pipeline 0 stands for a barrier.
type launch struct {
	pipeline        uintptr
	buffers         []uintptr
	offsets         []uint
	bytes           []byte
	groups, threads metal.Size
}

// barrierScope is MTLBarrierScopeBuffers.
const barrierScope = 1

// encoder sends the messages of one MTLComputeCommandEncoder: at most four a dispatch, and no Go allocation.
type encoder struct {
	r        *objc
	object   uintptr // 0 while there is none
	pipeline uintptr // set last
	// Structs over 16 bytes travel by pointer and belong to the called method, so it gets copies.
	groups, threads metal.Size
}

func (e *encoder) dispatch(l *launch) {
	if l.pipeline != e.pipeline {
		e.r.send(e.object, selSetPipeline, l.pipeline)
		e.pipeline = l.pipeline
	}
	n := uintptr(len(l.buffers))
	if n > 0 {
		// The last two words are an NSRange.
		e.r.send(e.object, selSetBuffers, uintptr(unsafe.Pointer(&l.buffers[0])), uintptr(unsafe.Pointer(&l.offsets[0])), 0, n)
	}
	if len(l.bytes) > 0 {
		e.r.send(e.object, selSetBytes, uintptr(unsafe.Pointer(&l.bytes[0])), uintptr(len(l.bytes)), n)
	}
	e.groups, e.threads = l.groups, l.threads
	e.r.send(e.object, selDispatchThreadgroups, uintptr(unsafe.Pointer(&e.groups)), uintptr(unsafe.Pointer(&e.threads)))
	runtime.KeepAlive(l)
}

func (e *encoder) barrier() { e.r.send(e.object, selMemoryBarrier, barrierScope) }

func (e *encoder) replay(list []launch) {
	for i := range list {
		if list[i].pipeline == 0 {
			e.barrier()
		} else {
			e.dispatch(&list[i])
		}
	}
}
