package metal

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

const page = 16 << 10 // of Apple silicon

// checkPages refuses memory that newBufferWithBytesNoCopy would.
func checkPages(memory []byte) error {
	if len(memory) == 0 || len(memory)%page != 0 {
		return fmt.Errorf("wrapping %d bytes: want a multiple of %d", len(memory), page)
	}
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(memory))); at%page != 0 {
		return fmt.Errorf("wrapping memory %d bytes into a page of %d: want its start", at%page, page)
	}
	return nil
}

// checkLaunch refuses what Metal would answer with an abort, a dropped dispatch or undefined results.
func checkLaunch(d *Device, l *Launch) error {
	p := l.Pipeline
	if p == nil || p.device != d {
		return errors.New("preparing a dispatch: its pipeline is missing or another device's")
	}
	if p.closed {
		return fmt.Errorf("preparing a dispatch: pipeline %s: %w", p.name, ErrClosed)
	}
	if err := checkThreads(p, l.Threads); err != nil {
		return err
	}
	if err := checkGroups(p, l.Groups, l.Threads); err != nil {
		return err
	}
	if n := len(l.Bytes); n > MaxBytes || n%4 != 0 {
		return fmt.Errorf("%s: %d bytes of constants: want a multiple of 4, at most %d", p.name, n, MaxBytes)
	}
	if n := len(l.Buffers); n >= MaxBuffers {
		return fmt.Errorf("%s: %d buffers, at most %d and constants exist", p.name, n, MaxBuffers-1)
	}
	for i := range l.Buffers {
		if err := checkBinding(d, p, l.Buffers, i); err != nil {
			return err
		}
	}
	return nil
}

func checkThreads(p *Pipeline, threads Size) error {
	for _, n := range [...]int{threads.X, threads.Y, threads.Z} { // one by one, since the product may overflow
		if n <= 0 || n > MaxThreads {
			return fmt.Errorf("%s: threadgroup of %v threads: each must be from 1 to %d", p.name, threads, MaxThreads)
		}
	}
	if n := threads.Count(); n > p.maxThreads {
		return fmt.Errorf("%s: threadgroup of %d threads, but the pipeline allows %d", p.name, n, p.maxThreads)
	}
	return nil
}

// checkGroups refuses empty grids, and those whose thread positions exceed the uint that kernels get them in.
func checkGroups(p *Pipeline, groups, threads Size) error {
	for _, d := range [...][2]int{{groups.X, threads.X}, {groups.Y, threads.Y}, {groups.Z, threads.Z}} {
		if d[0] <= 0 || d[0] > math.MaxUint32/d[1] {
			return fmt.Errorf("%s: grid of %v threadgroups of %v threads: each must be above 0, and their product at most %d",
				p.name, groups, threads, uint32(math.MaxUint32))
		}
	}
	return nil
}

// checkBinding completes and checks list[i].
func checkBinding(d *Device, p *Pipeline, list []Binding, i int) error {
	b := &list[i]
	switch {
	case b.Buffer == nil || b.Buffer.device != d:
		return fmt.Errorf("%s: buffer %d is missing or another device's", p.name, i)
	case b.Buffer.closed:
		return fmt.Errorf("%s: buffer %d: %w", p.name, i, ErrClosed)
	case b.Access < In || b.Access > InOut:
		return fmt.Errorf("%s: buffer %d has no access", p.name, i)
	case b.Offset < 0 || b.Offset%4 != 0:
		return fmt.Errorf("%s: buffer %d at offset %d: want a multiple of 4", p.name, i, b.Offset)
	}
	if b.Length == 0 {
		b.Length = b.Buffer.length - b.Offset
	}
	if b.Length <= 0 || b.Offset > b.Buffer.length-b.Length {
		return fmt.Errorf("%s: buffer %d: bytes [%d, %d) of %d", p.name, i, b.Offset, b.Offset+b.Length, b.Buffer.length)
	}
	if err := b.countBytes(); err != nil {
		return fmt.Errorf("%s: buffer %d: %w", p.name, i, err)
	}
	for j := range list[:i] {
		o := &list[j]
		// The compiler assumes that two device arguments never share memory that either writes (MSL specification 5.2).
		if o.Buffer == b.Buffer && (o.Access|b.Access)&Out != 0 && o.Offset < b.Offset+b.Length && b.Offset < o.Offset+o.Length {
			return fmt.Errorf("%s: buffers %d and %d overlap: bytes [%d, %d) and [%d, %d)", p.name, j, i,
				o.Offset, o.Offset+o.Length, b.Offset, b.Offset+b.Length)
		}
	}
	return nil
}

// countBytes completes and checks the declared numbers of unique bytes.
func (b *Binding) countBytes() error {
	for _, c := range [...]struct {
		what   string
		access Access
		bytes  *int64
	}{{"read", In, &b.Reads}, {"written", Out, &b.Writes}} {
		switch {
		case b.Access&c.access == 0 && *c.bytes != 0:
			return fmt.Errorf("%d bytes declared as %s, which its access excludes", *c.bytes, c.what)
		case *c.bytes < 0 || *c.bytes > b.Length:
			return fmt.Errorf("%d unique bytes declared as %s, out of %d", *c.bytes, c.what, b.Length)
		case b.Access&c.access != 0 && *c.bytes == 0:
			*c.bytes = b.Length
		}
	}
	return nil
}
