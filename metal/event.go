package metal

import (
	"fmt"
	"time"
)

// Event is a counter that passes set and the CPU waits for.
type Event struct {
	device *Device
	driver DriverEvent
	closed bool
}

// NewEvent makes an event with value 0.
func (d *Device) NewEvent() (*Event, error) {
	if err := d.check("making an event"); err != nil {
		return nil, err
	}
	e, err := d.driver.NewEvent()
	if err != nil {
		return nil, fmt.Errorf("making an event: %w", err)
	}
	d.open++
	return &Event{device: d, driver: e}, nil
}

// Value is the counter's value now.
func (e *Event) Value() uint64 {
	if e.closed {
		return 0
	}
	return e.driver.Value()
}

// Wait waits until the counter has reached value; a timeout is an error.
func (e *Event) Wait(value uint64, timeout time.Duration) error {
	if e.closed {
		return fmt.Errorf("waiting for an event: %w", ErrClosed)
	}
	if !e.driver.Wait(value, timeout) {
		return fmt.Errorf("waiting for an event: at %d after %v, want %d", e.driver.Value(), timeout, value)
	}
	return nil
}

// Close frees the event. It is safe to call twice.
func (e *Event) Close() {
	if !e.closed {
		e.closed = true
		e.device.forget()
		e.driver.Close()
	}
}
