//go:build linux && amd64 && !nosim

package sim

import (
	"fmt"
	"unsafe"

	"lilypad/metal"
)

// traceRange is a binding of a dispatch: struct range of sim.h.
type traceRange struct {
	start                         uintptr
	length, access, reads, writes uint64
	seen, writer                  uintptr
}

// trace says what a dispatch may touch: struct trace of sim.h. The constants' range follows those of the buffers.
type trace struct {
	image, imageSize uintptr
	count            uint64
	ranges           [maxArgs]traceRange
}

// Complaints about an access: failure.what.
const (
	traceMisaligned = iota + 1
	traceOutside
	traceLoad
	traceStore
	traceForeign
)

// watch attaches a trace to every dispatch of [from, to).
func (d *cpuDriver) watch(o *cpuOps, from, to int) []trace {
	traces := make([]trace, to-from)
	for i := range traces {
		op, c, t := &o.ops[from+i], o.from[from+i], &traces[i]
		op.trace = uintptr(unsafe.Pointer(t))
		t.image, t.imageSize = c.pipeline.entry-uintptr(c.pipeline.offset), c.pipeline.size
		for j := range c.launch.Buffers {
			b := &c.launch.Buffers[j]
			t.ranges[j] = traceRange{start: b.Buffer.Driver().(*cpuBuffer).address() + uintptr(b.Offset), length: uint64(b.Length), access: uint64(b.Access)}
		}
		t.count = uint64(len(c.launch.Buffers))
		if c.constant >= 0 {
			t.ranges[t.count] = traceRange{start: op.args[c.constant], length: uint64(len(c.bytes)), access: uint64(metal.In)}
			t.count++
		}
	}
	return traces
}

// compareTraffic finds a dispatch that didn't read or write as many bytes as it declares.
func compareTraffic(o *cpuOps, from int, traces []trace) error {
	for i := range traces {
		l := o.from[from+i].launch
		for j := range l.Buffers {
			b, r := &l.Buffers[j], &traces[i].ranges[j]
			reads, writes := uint64(0), uint64(0)
			if b.Access&metal.In != 0 {
				reads = uint64(b.Reads)
			}
			if b.Access&metal.Out != 0 {
				writes = uint64(b.Writes)
			}
			if reads != r.reads || writes != r.writes {
				return &metal.PassError{Failure: metal.InvalidUse, Text: fmt.Sprintf(
					"%s: buffer %d: %d unique bytes read and %d written, but %d and %d declared",
					l.Pipeline.Name(), j, r.reads, r.writes, reads, writes)}
			}
		}
	}
	return nil
}

// findHazard looks for two dispatches without a barrier between them of which one writes what the other uses.
func findHazard(o *cpuOps) error {
	start := 0
	for i := range o.ops {
		if o.ops[i].level != o.ops[start].level {
			start = i
		}
		for j := start; j < i; j++ {
			if err := conflict(o.from[j].launch, o.from[i].launch); err != nil {
				return err
			}
		}
	}
	return nil
}

func conflict(a, b *metal.Launch) error {
	for i := range a.Buffers {
		for j := range b.Buffers {
			x, y := &a.Buffers[i], &b.Buffers[j]
			if (x.Access|y.Access)&metal.Out == 0 {
				continue
			}
			xs := x.Buffer.Driver().(*cpuBuffer).address() + uintptr(x.Offset)
			ys := y.Buffer.Driver().(*cpuBuffer).address() + uintptr(y.Offset)
			if xs < ys+uintptr(y.Length) && ys < xs+uintptr(x.Length) {
				return &metal.PassError{Failure: metal.InvalidUse, Text: fmt.Sprintf(
					"no barrier between %s (buffer %d, bytes [%d, %d)) and %s (buffer %d, bytes [%d, %d)), of which one writes what both use",
					a.Pipeline.Name(), i, x.Offset, x.Offset+x.Length, b.Pipeline.Name(), j, y.Offset, y.Offset+y.Length)}
			}
		}
	}
	return nil
}

// complaint words what is wrong with an access.
func (c *cpuDispatch) complaint(f *failure) string {
	where := c.pipeline.place(f.site)
	name := fmt.Sprintf("buffer %d", f.binding)
	if int(f.binding) >= len(c.launch.Buffers) {
		name = "the constants"
	}
	switch f.what {
	case traceMisaligned:
		return fmt.Sprintf("the access%s needs a multiple of %d bytes, its address is %d above one", where, f.binding, f.address%uint64(f.binding))
	case traceLoad:
		return fmt.Sprintf("the load%s reads %s, which is bound for writing only", where, name)
	case traceStore:
		return fmt.Sprintf("the store%s writes %s, which is bound for reading only", where, name)
	case traceForeign:
		return fmt.Sprintf("the load%s reads in %s what another threadgroup of this dispatch stored", where, name)
	}
	return fmt.Sprintf("the access%s is outside all bindings%s", where, c.nearest(f.address))
}

// nearest tells where an address is, seen from the closest binding.
func (c *cpuDispatch) nearest(address uint64) string {
	best, text := uint64(1<<20), ""
	for i := range c.launch.Buffers {
		b := &c.launch.Buffers[i]
		start := uint64(b.Buffer.Driver().(*cpuBuffer).address()) + uint64(b.Offset)
		end := start + uint64(b.Length)
		if address >= end && address-end < best {
			best, text = address-end, fmt.Sprintf(", %d bytes after the end of buffer %d", address-end, i)
		}
		if address < start && start-address < best {
			best, text = start-address, fmt.Sprintf(", %d bytes before buffer %d", start-address, i)
		}
	}
	return text
}
