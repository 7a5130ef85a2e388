package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lilypad/metal"
	"lilypad/metal/apple"
	"lilypad/metal/kernels"
	"lilypad/metal/sim"
	"lilypad/worker/checkpoint"
	"lilypad/worker/gpu"
	"lilypad/worker/state"
)

// devices open the GPUs that a backend can compute on, by the backend's name; threads is the number that a simulated one
// may use, 0 for all cores.
var devices = map[string]func(threads int) (*metal.Device, error){
	"metal": func(int) (*metal.Device, error) { return apple.Open() },
	"sim:cpu": func(threads int) (*metal.Device, error) {
		return sim.Open(sim.Options{Target: sim.CPU, Threads: threads})
	},
	"sim:cuda": func(int) (*metal.Device, error) { return sim.Open(sim.Options{Target: sim.CUDA}) },
}

// OpenDevice opens the GPU of the named backend; "cpu" has none. "sim:count", which computes nothing, is no backend, but
// a device. What is made of it belongs to the calling OS thread.
func OpenDevice(name string, threads int) (*metal.Device, error) {
	if name == "sim:count" {
		return sim.Open(sim.Options{Target: sim.Count})
	}
	open, ok := devices[name]
	if !ok {
		return nil, invalid("backend %q computes on no GPU", name)
	}
	return open(threads)
}

// gpuBackend is a Model with a device of its own.
type gpuBackend struct {
	*gpu.Model
	device *metal.Device
}

func openGPU(name string, ck *checkpoint.Checkpoint, o BackendOptions) (state.Backend, error) {
	d, err := OpenDevice(name, o.Threads)
	if err != nil {
		return nil, err
	}
	var onPass func(int)
	if o.OnLayer != nil {
		onPass = func(int) { o.OnLayer(0) }
	}
	choices, err := tunedChoices(o.Tuning, d)
	if err != nil && o.Log != nil {
		o.Log.WithField("reason", err).Warn("measured choices of kernels are not used; lilypad tune makes new ones")
	}
	m, err := gpu.New(d, ck, gpu.Options{
		Context: o.Context, Limit: o.Limit, Threads: o.Threads, OnPass: onPass, Progress: o.Progress, Allowed: o.Allowed,
		Chunk: o.Chunk, Pressed: memoryPressed, Choices: choices,
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return gpuBackend{m, d}, nil
}

// tunedChoices reads a file of measured choices for d; none when it is missing.
func tunedChoices(file string, d *metal.Device) (kernels.Table, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := gpu.ParseTuning(data, gpu.GPUKey(d))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t.Choices, nil
}

// Close frees the model, then the device.
func (b gpuBackend) Close() error { return errors.Join(b.Model.Close(), b.device.Close()) }
