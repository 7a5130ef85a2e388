package worker

import (
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/cpu"
	"lilypad/worker/state"
)

// cpuBackend and metalBackend are names of backends.
const (
	cpuBackend   = "cpu"
	metalBackend = "metal"
)

// BackendOptions bound a backend.
type BackendOptions struct {
	Context  int                     // most tokens of one sequence; 0 means the model's own, at most 32,768
	Limit    int64                   // bytes for states; 0 means no limit
	Threads  int                     // threads that compute; 0 means all cores
	Kernels  string                  // kernel set of the CPU backend, one of CPUKernels; empty means the preferred one
	Chunk    int                     // most tokens that a GPU computes at once; 0 means the backend's own
	Tuning   string                  // file of measured choices for a GPU; empty for none
	OnLayer  func(layer int)         // called on the compute thread as it gets on; may be nil
	Progress func(done, total int64) // hears of bytes of weights copied to a GPU; may be nil
	Allowed  func(id int32) bool     // ids that a GPU may sample; nil means all
	Log      logrus.FieldLogger      // hears why the default is not the GPU; may be nil
}

// OpenBackend makes the named backend over a checkpoint and returns it with its name. For an empty name that is Metal
// where it works, else the CPU, never a simulated GPU. Both must be closed, the backend before the checkpoint, and all
// of it belongs to the calling OS thread. An unknown name is an error of protocol.CodeInvalid that lists the known ones.
func OpenBackend(name string, ck *checkpoint.Checkpoint, o BackendOptions) (state.Backend, string, error) {
	if err := checkBackend(name); err != nil {
		return nil, "", err
	}
	if name == "" {
		b, err := openGPU(metalBackend, ck, o)
		if err == nil {
			return b, metalBackend, nil
		}
		if protocol.CodeOf(err) != 0 { // not Metal's fault
			return nil, "", err
		}
		if o.Log != nil {
			o.Log.WithField("reason", err).Info("the CPU computes, since Metal does not work here")
		}
		name = cpuBackend
	}
	if name != cpuBackend {
		b, err := openGPU(name, ck, o)
		return b, name, err
	}
	b, err := cpu.New(ck, cpu.Options{Context: o.Context, Limit: o.Limit, Threads: o.Threads, Kernels: o.Kernels, OnLayer: o.OnLayer})
	return b, name, err
}

// CPUKernels names the kernel sets of the CPU backend that this machine runs, the preferred one first.
func CPUKernels() []string { return cpu.KernelSets() }

// checkBackend refuses names that no backend has.
func checkBackend(name string) error {
	if name == "" || name == cpuBackend || devices[name] != nil {
		return nil
	}
	known := []string{cpuBackend}
	for n := range devices {
		known = append(known, n)
	}
	slices.Sort(known)
	return protocol.Errorf(protocol.CodeInvalid, "there is no backend %q here; there is: %s", name, strings.Join(known, ", "))
}
