package metal

import "fmt"

// CompileError is what the compiler says of a source.
type CompileError struct {
	Line int    // of the first complaint, counted from 1; 0 where unknown
	Text string // all that the compiler wrote
}

func (e *CompileError) Error() string { return e.Text }

// Failure is the way in which a pass failed.
type Failure int

// The failures that callers tell apart.
const (
	Failed      Failure = iota + 1 // none of those below
	OutOfMemory                    // memory for the pass, or for what it refers to, could not be had
	Timeout                        // the watchdog ended it
	Hang                           // the GPU stopped answering
	PageFault                      // a kernel touched memory that is not its own
	Impacting                      // the display needed the GPU: a pass ran for too long
	Ignored                        // not run: earlier passes of this process failed too often
	Revoked                        // the system took the GPU away from this process
	InvalidUse                     // an object of the pass was not usable
	Victim                         // ended by the recovery from a failure of another pass, maybe another program's
)

func (f Failure) String() string {
	names := [...]string{"failed", "ran out of memory", "timed out", "hung", "touched foreign memory", "kept the display waiting",
		"was ignored after earlier failures", "lost the GPU", "used an invalid object", "was ended by another failure"}
	if f < 1 || int(f) > len(names) {
		return fmt.Sprintf("failure %d", int(f))
	}
	return names[f-1]
}

// PassError is the failure of a finished pass.
type PassError struct {
	Failure Failure
	Code    int    // MTLCommandBufferError, or the simulator's or CUDA's own number
	Text    string // the system's description
}

func (e *PassError) Error() string {
	return fmt.Sprintf("GPU pass %v (code %d): %s", e.Failure, e.Code, e.Text)
}
