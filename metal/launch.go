package metal

import (
	"errors"
	"fmt"
	"slices"
)

// Size counts threads or threadgroups in three dimensions. Its layout is MTLSize's.
type Size struct{ X, Y, Z int }

// Count is the product of the three.
func (s Size) Count() int { return s.X * s.Y * s.Z }

// Line is a Size of one dimension.
func Line(n int) Size { return Size{n, 1, 1} }

// Access says what a kernel does with a buffer.
type Access int

// The kinds of access; In and Out are flags.
const (
	In    Access = 1
	Out   Access = 2
	InOut Access = In | Out
)

// Binding is a buffer argument: the bytes [Offset, Offset+Length) of a buffer.
type Binding struct {
	Buffer *Buffer
	Offset int64
	Length int64 // what the kernel may touch; 0: all from Offset on
	Access Access
	// Unique bytes that the dispatch reads and writes here, where that is less than Length: the simulator counts them and
	// checks small shapes against a trace of real addresses.
	Reads, Writes int64
}

// Launch describes one dispatch. Buffers take the buffer indices from 0 on and Bytes the next one, so that one message
// sets all buffers and one the constants.
type Launch struct {
	Pipeline *Pipeline
	Buffers  []Binding
	Bytes    []byte // small constants, at most MaxBytes; nil for none
	Groups   Size   // threadgroups of the grid
	Threads  Size   // threads of a threadgroup
}

// Dispatch is a checked, prepared Launch: encoding it allocates nothing.
type Dispatch struct {
	device *Device
	driver DriverDispatch
	launch Launch
	valid  int // Device.closings at which the dispatch was last found usable
	closed bool
}

// NewDispatch checks and prepares l. Buffers and pipeline must stay open as long as the dispatch is in use.
func (d *Device) NewDispatch(l Launch) (*Dispatch, error) {
	if err := d.check("preparing a dispatch"); err != nil {
		return nil, err
	}
	l.Buffers = slices.Clone(l.Buffers)
	l.Bytes = slices.Clone(l.Bytes)
	if err := checkLaunch(d, &l); err != nil {
		return nil, err
	}
	p, err := d.driver.NewDispatch(&l)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", l.Pipeline.name, err)
	}
	d.open++
	return &Dispatch{device: d, driver: p, launch: l, valid: d.closings}, nil
}

// usable tells whether d can be encoded on a device: it and all that it uses are open.
func (d *Dispatch) usable(on *Device) error {
	switch {
	case d == nil || d.device != on:
		return errors.New("it is missing or another device's")
	case d.valid == on.closings:
		return nil // nothing was closed since
	case d.closed:
		return fmt.Errorf("%s: %w", d.launch.Pipeline.name, ErrClosed)
	case d.launch.Pipeline.closed:
		return fmt.Errorf("%s: pipeline %w", d.launch.Pipeline.name, ErrClosed)
	}
	for i := range d.launch.Buffers {
		if d.launch.Buffers[i].Buffer.closed {
			return fmt.Errorf("%s: buffer %d: %w", d.launch.Pipeline.name, i, ErrClosed)
		}
	}
	d.valid = on.closings
	return nil
}

// Launch returns what the dispatch was made of. It must not be changed.
func (d *Dispatch) Launch() *Launch { return &d.launch }

// SetBytes replaces the constants of later encodings by as many others.
func (d *Dispatch) SetBytes(b []byte) error {
	if d.closed {
		return fmt.Errorf("setting constants of %s: %w", d.launch.Pipeline.name, ErrClosed)
	}
	if len(b) != len(d.launch.Bytes) {
		return fmt.Errorf("setting constants of %s: %d bytes, want %d", d.launch.Pipeline.name, len(b), len(d.launch.Bytes))
	}
	copy(d.launch.Bytes, b)
	d.driver.SetBytes(b)
	return nil
}

// SetGroups replaces the grid of later encodings.
func (d *Dispatch) SetGroups(groups Size) error {
	if d.closed {
		return fmt.Errorf("setting the grid of %s: %w", d.launch.Pipeline.name, ErrClosed)
	}
	if err := checkGroups(d.launch.Pipeline, groups, d.launch.Threads); err != nil {
		return err
	}
	d.launch.Groups = groups
	d.driver.SetGroups(groups)
	return nil
}

// Close frees the dispatch. It is safe to call twice.
func (d *Dispatch) Close() {
	if !d.closed {
		d.closed = true
		d.device.forget()
		d.driver.Close()
	}
}

// Recording is a fixed sequence of dispatches and barriers that a pass replays as one.
type Recording struct {
	device *Device
	driver DriverRecording
	ops    []*Dispatch // nil for a barrier
	valid  int         // as of Dispatch
	closed bool
}

// NewRecording prepares ops in order, nil standing for a barrier. The dispatches must stay open as long as the recording is in use;
// SetBytes and SetGroups of them have no influence on it.
func (d *Device) NewRecording(ops []*Dispatch) (*Recording, error) {
	if err := d.check("recording dispatches"); err != nil {
		return nil, err
	}
	list := make([]DriverDispatch, len(ops))
	for i, op := range ops {
		if op == nil {
			continue
		}
		if err := op.usable(d); err != nil {
			return nil, fmt.Errorf("recording dispatch %d: %w", i, err)
		}
		list[i] = op.driver
	}
	r, err := d.driver.NewRecording(list)
	if err != nil {
		return nil, fmt.Errorf("recording %d dispatches: %w", len(ops), err)
	}
	d.open++
	return &Recording{device: d, driver: r, ops: slices.Clone(ops), valid: d.closings}, nil
}

func (r *Recording) usable(on *Device) error {
	switch {
	case r == nil || r.device != on:
		return errors.New("it is missing or another device's")
	case r.valid == on.closings:
		return nil
	case r.closed:
		return ErrClosed
	}
	for i, op := range r.ops {
		if op == nil {
			continue
		}
		if err := op.usable(on); err != nil {
			return fmt.Errorf("dispatch %d: %w", i, err)
		}
	}
	r.valid = on.closings
	return nil
}

// Close frees the recording. It is safe to call twice.
func (r *Recording) Close() {
	if !r.closed {
		r.closed = true
		r.device.forget()
		r.driver.Close()
	}
}
