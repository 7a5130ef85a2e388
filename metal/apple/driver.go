package apple

import (
	"cmp"
	"errors"
	"fmt"

	"lilypad/metal"
)

// driver implements metal.Driver. Objects it names are owned unless said otherwise.
type driver struct {
	r         *objc
	thread    uintptr // that opened the GPU
	device    uintptr // MTLDevice
	queue     uintptr // MTLCommandQueue
	fence     uintptr // MTLFence: orders encoders, since buffers are untracked
	residency *residency
	info      metal.Info
}

func newDriver(r *objc) (_ *driver, err error) {
	defer r.drain(r.pool())
	d := &driver{r: r, thread: r.invoke(fnThread)}
	defer func() {
		if err != nil {
			_ = d.Close()
		}
	}()
	if d.device = firstDevice(r); d.device == 0 {
		return nil, errors.New("macOS shows no GPU to this process")
	}
	if err := r.knows(d.device, "MTLDevice"); err != nil {
		return nil, err
	}
	if d.info, err = describeGPU(r, d.device); err != nil {
		return nil, err
	}
	if d.queue = r.send(d.device, selNewCommandQueue); d.queue == 0 {
		return nil, fmt.Errorf("GPU %s gives no command queue", d.info.Name)
	}
	if d.fence = r.send(d.device, selNewFence); d.fence == 0 {
		return nil, fmt.Errorf("GPU %s gives no fence", d.info.Name)
	}
	if d.residency, err = newResidency(r, d.device, d.queue); err != nil {
		return nil, err
	}
	return d, d.probe()
}

// probe makes what passes are made of, to see that all of it is what the driver knows, and drops it.
func (d *driver) probe() error {
	r := d.r
	if err := r.knows(d.queue, "MTLCommandQueue"); err != nil {
		return err
	}
	command := r.send(d.queue, selCommandBuffer)
	if command == 0 {
		return errors.New("the queue gives no command buffer")
	}
	if err := r.knows(command, "MTLCommandBuffer"); err != nil {
		return err
	}
	encoder := r.send(command, selComputeEncoder, dispatchConcurrent)
	if err := r.knows(encoder, "MTLCommandEncoder"); encoder == 0 || err != nil {
		return cmp.Or(err, errors.New("the command buffer gives no encoder"))
	}
	r.send(encoder, selEndEncoding)
	return r.knows(encoder, "MTLComputeCommandEncoder")
}

// firstDevice returns an owned MTLDevice, or 0. In sandboxes and processes without a window either way has been seen to
// find nothing while the other worked.
func firstDevice(r *objc) uintptr {
	if list := r.invoke(fnCopyAllDevices); list != 0 {
		defer r.release(list)
		if r.send(list, selCount) > 0 { // an index past the end throws
			return r.retain(r.send(list, selObjectAtIndex, 0))
		}
	}
	return r.invoke(fnDefaultDevice)
}

func (d *driver) Info() metal.Info { return d.info }

// Close releases what newDriver made, whichever part of it.
func (d *driver) Close() error {
	defer d.r.drain(d.r.pool())
	d.residency.close(d.r)
	for _, object := range [...]uintptr{d.fence, d.queue, d.device} {
		d.r.release(object)
	}
	d.fence, d.queue, d.device = 0, 0, 0
	return nil
}

// here refuses calls from another thread than the one that opened the GPU: pools belong to threads.
func (d *driver) here() error {
	if now := d.r.invoke(fnThread); now != d.thread {
		return fmt.Errorf("GPU %s is used from thread %#x, but was opened on %#x", d.info.Name, now, d.thread)
	}
	return nil
}
