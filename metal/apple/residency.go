package apple

import "fmt"

// residency keeps all buffers resident for the queue (macOS 15), so that no pass has to say what it uses and the system
// doesn't page weights out between two requests. Nil where the system has no residency sets.
type residency struct {
	set   uintptr
	dirty bool // allocations were added since the last commit
}

func newResidency(r *objc, device, queue uintptr) (*residency, error) {
	if r.classes[classResidencySetDescriptor] == 0 || !r.responds(device, selNewResidencySet) {
		return nil, nil
	}
	descriptor := r.send(r.classes[classResidencySetDescriptor], selNew)
	defer r.release(descriptor)
	set, fault := r.try(device, selNewResidencySet, descriptor)
	if set == 0 {
		return nil, fmt.Errorf("making a residency set: %s", r.describe(fault))
	}
	r.send(queue, selAddResidencySet, set)
	return &residency{set: set}, nil
}

func (s *residency) add(r *objc, buffer uintptr) {
	if s != nil {
		r.send(s.set, selAddAllocation, buffer)
		s.dirty = true
	}
}

// remove lets go of a buffer at once, so that its memory returns to the system.
func (s *residency) remove(r *objc, buffer uintptr) {
	if s != nil {
		r.send(s.set, selRemoveAllocation, buffer)
		r.send(s.set, selCommitSet)
	}
}

// settle makes what was added resident, before a pass uses it.
func (s *residency) settle(r *objc) {
	if s != nil && s.dirty {
		r.send(s.set, selCommitSet)
		r.send(s.set, selRequestResidency)
		s.dirty = false
	}
}

func (s *residency) close(r *objc) {
	if s != nil {
		r.release(s.set)
		s.set = 0
	}
}
