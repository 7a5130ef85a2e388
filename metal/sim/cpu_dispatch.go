//go:build linux && amd64 && !nosim

package sim

import (
	"fmt"
	"unsafe"

	"lilypad/metal"
)

// cpuDispatch is a prepared launch. The constants' address is filled in when it is encoded.
type cpuDispatch struct {
	op       op
	launch   *metal.Launch
	pipeline *cpuPipeline
	bytes    []byte
	constant int // argument that points to bytes; -1 for none
}

// NewDispatch places the buffers of l by the kernel's indices.
func (d *cpuDriver) NewDispatch(l *metal.Launch) (metal.DriverDispatch, error) {
	p := l.Pipeline.Driver().(*cpuPipeline)
	c := &cpuDispatch{launch: l, pipeline: p, bytes: append([]byte(nil), l.Bytes...), constant: -1}
	c.op.kernel = p.entry
	for i, a := range p.kernel.Args {
		switch {
		case a.Index < len(l.Buffers):
			b := &l.Buffers[a.Index]
			if a.Const && b.Access&metal.Out != 0 {
				return nil, fmt.Errorf("buffer %d (%s) is const in the kernel, but bound for writing", a.Index, a.Name)
			}
			c.op.args[i] = b.Buffer.Driver().(*cpuBuffer).address() + uintptr(b.Offset)
		case a.Index == len(l.Buffers) && len(l.Bytes) > 0:
			c.constant = i
		case !a.Optional:
			return nil, fmt.Errorf("argument %s at buffer index %d gets nothing: %d buffers and %d bytes of constants are bound",
				a.Name, a.Index, len(l.Buffers), len(l.Bytes))
		}
	}
	c.op.threads = sizes(l.Threads)
	c.SetGroups(l.Groups)
	return c, nil
}

func sizes(s metal.Size) [3]uint32 { return [3]uint32{uint32(s.X), uint32(s.Y), uint32(s.Z)} }

// SetBytes replaces the constants.
func (c *cpuDispatch) SetBytes(b []byte) { copy(c.bytes, b) }

// SetGroups replaces the grid.
func (c *cpuDispatch) SetGroups(groups metal.Size) {
	c.op.groups = sizes(groups)
	c.op.count = uint32(groups.Count())
}

// Close has nothing to free.
func (c *cpuDispatch) Close() {}

// cpuOps is a sequence of dispatches. Constants lie one after another in bytes, whose address may change while it grows:
// place sets the arguments that point there.
type cpuOps struct {
	ops    []op
	from   []*cpuDispatch
	bytes  []byte
	level  uint32
	points []constantPointer
}

type constantPointer struct{ op, argument, offset int }

func (o *cpuOps) reset() {
	o.ops, o.from, o.bytes, o.points, o.level = o.ops[:0], o.from[:0], o.bytes[:0], o.points[:0], 0
}

func (o *cpuOps) add(c *cpuDispatch) {
	if c.constant >= 0 {
		o.points = append(o.points, constantPointer{len(o.ops), c.constant, len(o.bytes)})
		o.bytes = append(o.bytes, c.bytes...)
		for len(o.bytes)%16 != 0 {
			o.bytes = append(o.bytes, 0)
		}
	}
	o.ops = append(o.ops, c.op)
	o.ops[len(o.ops)-1].level = o.level
	o.from = append(o.from, c)
}

// replay appends a sequence whose constants keep their place.
func (o *cpuOps) replay(r *cpuOps) {
	start := len(o.ops)
	o.ops = append(o.ops, r.ops...)
	o.from = append(o.from, r.from...)
	for i := start; i < len(o.ops); i++ {
		o.ops[i].level += o.level
	}
	o.level += r.level
}

func (o *cpuOps) place() {
	for _, p := range o.points {
		o.ops[p.op].args[p.argument] = uintptr(unsafe.Pointer(&o.bytes[p.offset]))
	}
}

// NewRecording keeps copies of the dispatches.
func (d *cpuDriver) NewRecording(list []metal.DriverDispatch) (metal.DriverRecording, error) {
	r := &cpuRecording{}
	for _, op := range list {
		if op == nil {
			r.level++
			continue
		}
		r.add(op.(*cpuDispatch))
	}
	r.place()
	return r, nil
}

type cpuRecording struct{ cpuOps }

// Close has nothing to free.
func (r *cpuRecording) Close() {}
