//go:build linux && amd64 && !nosim

package sim

import (
	"fmt"

	"lilypad/metal"
)

// Codes of failures: enum failure_code of sim.h.
const (
	failBarrier = iota + 1
	failExited
	failSites
	failTrace
	failMemory
)

// explain turns a failure of the runtime into an error that names the kernel, the thread and the line.
func (d *cpuDriver) explain(c *cpuDispatch, f *failure) error {
	p := c.pipeline
	text := ""
	switch f.code {
	case failBarrier:
		text = "not all threads reach the threadgroup_barrier" + line(f.site)
		if f.other != 0 && f.other != f.site {
			text += ": some are at the one" + line(f.other)
		}
	case failExited:
		text = "lanes have returned before the simdgroup operation" + line(f.site)
	case failSites:
		text = "lanes of a simdgroup are at different places: at the operation" + line(f.site) + " and elsewhere" + line(f.other)
	case failTrace:
		text = c.complaint(f)
	case failMemory:
		return &metal.PassError{Failure: metal.OutOfMemory, Code: int(f.code), Text: "tracing " + p.kernel.Name}
	}
	return &metal.PassError{Failure: metal.InvalidUse, Code: int(f.code),
		Text: fmt.Sprintf("%s, threadgroup %v, thread %d: %s", p.kernel.Name, f.group, f.thread, text)}
}

// line words where a barrier or simdgroup operation is; code without checks doesn't say.
func line(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" of line %d", n)
}

// place names the source line of a code address; "" where it is not known.
func (p *cpuPipeline) place(site uint64) string {
	return line(uint64(sourceLine(p.path, site-uint64(p.entry)+p.offset)))
}
