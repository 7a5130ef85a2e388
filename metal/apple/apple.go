// Package apple drives the GPU of a Mac with Apple silicon: package metal's driver over Apple's Metal framework, reached
// through the Objective-C runtime without cgo. Elsewhere Open returns an error.
//
// Only the files named for darwin reach into the system. All the rest works on a runtime, a handful of functions, so that
// tests run the whole driver on any machine against a stand-in that counts messages, references and pools. Frameworks
// throw exceptions, which nothing here can catch: package metal checks sizes and states before a driver sees them, and
// this package checks every object once, where it is made.
//
// Package apple must not import anything of ours but package metal.
package apple

import (
	"fmt"

	"lilypad/metal"
)

// Open opens the Mac's GPU for the calling OS thread, which the caller has locked and which makes all later calls. It
// needs macOS 14 and an Apple7 GPU (M1) or later; anything else is an error that says what is missing.
func Open() (*metal.Device, error) {
	r, err := load()
	if err != nil {
		return nil, fmt.Errorf("opening Metal: %w", err)
	}
	d, err := newDriver(r)
	if err != nil {
		return nil, fmt.Errorf("opening Metal: %w", err)
	}
	return metal.NewDevice(d), nil
}
