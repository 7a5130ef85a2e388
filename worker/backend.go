package worker

import (
	"slices"
	"strings"

	"lilypad/protocol"
	"lilypad/worker/checkpoint"
	"lilypad/worker/cpu"
	"lilypad/worker/state"
)

const defaultBackend = "cpu"

// BackendOptions bound a backend.
type BackendOptions struct {
	Context int             // most tokens of one sequence; 0 means the model's own, at most 32,768
	Limit   int64           // bytes for states; 0 means no limit
	Threads int             // threads that compute; 0 means all cores
	OnLayer func(layer int) // called on the compute thread before each layer; may be nil
}

// backends are the ways to compute a checkpoint on this machine, by name.
var backends = map[string]func(*checkpoint.Checkpoint, BackendOptions) (state.Backend, error){
	"cpu": func(ck *checkpoint.Checkpoint, o BackendOptions) (state.Backend, error) {
		return cpu.New(ck, cpu.Options{Context: o.Context, Limit: o.Limit, Threads: o.Threads, OnLayer: o.OnLayer})
	},
}

// OpenBackend makes the named backend over a checkpoint, the default one for an empty name. It must be closed before the
// checkpoint. An unknown name is an error of protocol.CodeInvalid that lists the known ones.
func OpenBackend(name string, ck *checkpoint.Checkpoint, opt BackendOptions) (state.Backend, error) {
	name, err := backendName(name)
	if err != nil {
		return nil, err
	}
	return backends[name](ck, opt)
}

// backendName resolves the empty name and refuses unknown ones.
func backendName(name string) (string, error) {
	if name == "" {
		return defaultBackend, nil
	}
	if _, ok := backends[name]; !ok {
		var known []string
		for n := range backends {
			known = append(known, n)
		}
		slices.Sort(known)
		return "", protocol.Errorf(protocol.CodeInvalid, "there is no backend %q here; there is: %s", name, strings.Join(known, ", "))
	}
	return name, nil
}
