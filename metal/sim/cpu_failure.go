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
)

// explain turns a failure of the runtime into an error that names the kernel, the thread and the line.
func (d *cpuDriver) explain(c *cpuDispatch, f *failure) error {
	p := c.pipeline
	text := ""
	switch f.code {
	case failBarrier:
		text = "not all threads reach the threadgroup_barrier" + p.place(f.site)
		if f.other != 0 && f.other != f.site {
			text += ": some are at the one" + p.place(f.other)
		}
	case failExited:
		text = "lanes have returned before the simdgroup operation" + p.place(f.site)
	case failSites:
		text = "lanes of a simdgroup are at different places: at the operation" + p.place(f.site) + " and elsewhere" + p.place(f.other)
	}
	return &metal.PassError{Failure: metal.InvalidUse, Code: int(f.code),
		Text: fmt.Sprintf("%s, threadgroup %v, thread %d: %s", p.kernel.Name, f.group, f.thread, text)}
}

// place names the source line of a code address; "" where it is not known.
func (p *cpuPipeline) place(site uint64) string {
	if site == 0 {
		return ""
	}
	if line := sourceLine(p.path, site-uint64(p.entry)+p.offset); line > 0 {
		return fmt.Sprintf(" of line %d", line)
	}
	return ""
}
