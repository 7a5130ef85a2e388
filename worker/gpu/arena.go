package gpu

import (
	"lilypad/metal"
	"lilypad/metal/kernels"
	"lilypad/protocol"
)

// arena is device memory of equal elements that grows by doubling. Element 0 of an arena of states is never given out: it
// stays zero and is what new sequences begin with.
type arena struct {
	buffer   *metal.Buffer
	each     int64 // bytes of an element
	capacity int
	free     []int32 // those given back
	next     int32   // from here on none was ever given out
}

// take gives out an element, or false when all are in use.
func (a *arena) take() (int32, bool) {
	if n := len(a.free); n > 0 {
		id := a.free[n-1]
		a.free = a.free[:n-1]
		return id, true
	}
	if int(a.next) == a.capacity {
		return 0, false
	}
	a.next++
	return a.next - 1, true
}

func (a *arena) give(id int32) { a.free = append(a.free, id) }

// available is how many can be taken without growing.
func (a *arena) available() int { return len(a.free) + a.capacity - int(a.next) }

func (a *arena) at(id int32) kernels.Ref {
	return kernels.Ref{Buffer: a.buffer, Offset: int64(id) * a.each}
}

// clear makes an element zero. New buffers are, but a simulated GPU may be asked to make them otherwise.
func (a *arena) clear(id int32) error {
	zeros := make([]byte, min(a.each, 1<<20))
	for at := int64(0); at < a.each; at += int64(len(zeros)) {
		if err := a.buffer.Write(zeros[:min(int64(len(zeros)), a.each-at)], a.at(id).Offset+at); err != nil {
			return err
		}
	}
	return nil
}

// newArena makes an arena of n elements.
func newArena(d *metal.Device, each int64, n int) (arena, error) {
	b, err := d.NewBuffer(each * int64(n))
	return arena{buffer: b, each: each, capacity: n}, err
}

// most is how many elements a buffer can hold.
func (a *arena) most(d *metal.Device) int { return int(d.Info().MaxBuffer / a.each) }

// grow replaces the buffer by one of n elements with what was given out of the old one, and closes that.
func (m *Model) grow(a *arena, n int) error {
	b, err := m.device.NewBuffer(a.each * int64(n))
	if err != nil {
		return noMemory(a.each*int64(n), err.Error())
	}
	if a.next > 0 {
		if err := m.copy(kernels.Ref{Buffer: b}, kernels.Ref{Buffer: a.buffer}, int64(a.next)*a.each); err != nil {
			b.Close()
			return err
		}
	}
	a.buffer.Close()
	a.buffer, a.capacity = b, n
	return nil
}

// copy copies bytes on the GPU and waits for it. A step in flight goes first.
func (m *Model) copy(dst, src kernels.Ref, bytes int64) error {
	d, err := m.kernels.Copy(dst, src, bytes)
	if err != nil {
		return err
	}
	defer d.Close()
	return m.runNow(d)
}

func noMemory(want int64, why string) *protocol.Error {
	err := protocol.Errorf(protocol.CodeMemory, "no memory for the state of this conversation: %d bytes needed, %s", want, why)
	err.Want = want
	return err
}
