package metal

import "fmt"

// Buffer is memory that kernels read and write.
type Buffer struct {
	device *Device
	driver DriverBuffer
	length int64
	closed bool
}

// NewBuffer makes a zeroed buffer of length bytes, aligned to 16 KiB. A length over Info.MaxBuffer is an error.
func (d *Device) NewBuffer(length int64) (*Buffer, error) {
	if err := d.check("making a buffer"); err != nil {
		return nil, err
	}
	if length <= 0 || length > d.info.MaxBuffer {
		return nil, fmt.Errorf("making a buffer of %d bytes: GPU %s allows 1 to %d", length, d.info.Name, d.info.MaxBuffer)
	}
	b, err := d.driver.NewBuffer(length)
	if err != nil {
		return nil, fmt.Errorf("making a buffer of %d bytes: %w", length, err)
	}
	d.open++
	return &Buffer{device: d, driver: b, length: length}, nil
}

// WrapBuffer makes a buffer of the caller's memory without copying it. The memory must start at a page (16 KiB), be a
// whole number of pages long, not belong to Go's heap, and outlive the buffer. Tensors inside a safetensors file are only
// 8-byte aligned, so they can't be bound this way one by one.
func (d *Device) WrapBuffer(memory []byte) (*Buffer, error) {
	if err := d.check("wrapping memory"); err != nil {
		return nil, err
	}
	if err := checkPages(memory); err != nil {
		return nil, err
	}
	if int64(len(memory)) > d.info.MaxBuffer {
		return nil, fmt.Errorf("wrapping %d bytes: GPU %s allows %d", len(memory), d.info.Name, d.info.MaxBuffer)
	}
	b, err := d.driver.WrapBuffer(memory)
	if err != nil {
		return nil, fmt.Errorf("wrapping %d bytes: %w", len(memory), err)
	}
	d.open++
	return &Buffer{device: d, driver: b, length: int64(len(memory))}, nil
}

// Length is the size in bytes.
func (b *Buffer) Length() int64 { return b.length }

// Driver is for drivers.
func (b *Buffer) Driver() DriverBuffer { return b.driver }

// Memory is the CPU's view of the buffer, nil where Info.Shared is false. It is valid until Close.
func (b *Buffer) Memory() []byte {
	if b.closed {
		return nil
	}
	return b.driver.Memory()
}

// Read copies from the buffer at offset. Any goroutine may call it, for a range that no pass in flight writes.
func (b *Buffer) Read(dst []byte, offset int64) error {
	if err := b.checkRange("reading", offset, int64(len(dst))); err != nil {
		return err
	}
	return b.driver.Read(dst, offset)
}

// Write copies into the buffer at offset. Any goroutine may call it, for a range that no pass in flight touches.
func (b *Buffer) Write(src []byte, offset int64) error {
	if err := b.checkRange("writing", offset, int64(len(src))); err != nil {
		return err
	}
	return b.driver.Write(src, offset)
}

func (b *Buffer) checkRange(what string, offset, n int64) error {
	if b.closed {
		return fmt.Errorf("%s a buffer: %w", what, ErrClosed)
	}
	if offset < 0 || n < 0 || offset > b.length-n {
		return fmt.Errorf("%s bytes [%d, %d) of a buffer of %d", what, offset, offset+n, b.length)
	}
	return nil
}

// Close frees the buffer, which no pass in flight may use. It is safe to call twice.
func (b *Buffer) Close() {
	if !b.closed {
		b.closed = true
		b.device.forget()
		b.driver.Close()
	}
}
