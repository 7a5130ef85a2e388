package apple

import (
	"errors"
	"time"

	"lilypad/metal"
)

type event struct {
	d      *driver
	object uintptr // MTLSharedEvent
}

func (d *driver) NewEvent() (metal.DriverEvent, error) {
	if err := d.here(); err != nil {
		return nil, err
	}
	defer d.r.drain(d.r.pool())
	object := d.r.send(d.device, selNewSharedEvent)
	if object == 0 {
		return nil, errors.New("the GPU gives no event")
	}
	if err := d.r.knows(object, "MTLSharedEvent"); err != nil {
		d.r.release(object)
		return nil, err
	}
	return &event{d, object}, nil
}

func (e *event) Value() uint64 { return uint64(e.d.r.send(e.object, selSignaledValue)) }

func (e *event) Wait(value uint64, timeout time.Duration) bool {
	defer e.d.r.drain(e.d.r.pool())
	milliseconds := (max(timeout, 0) + time.Millisecond - 1) / time.Millisecond
	return isTrue(e.d.r.send(e.object, selWaitUntilSignaledValue, uintptr(value), uintptr(milliseconds)))
}

func (e *event) Close() { e.d.r.release(e.object) }
