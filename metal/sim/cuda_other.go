//go:build !linux || nosim

package sim

import (
	"errors"

	"lilypad/metal"
)

func openCUDADriver(Options) (metal.Driver, error) {
	return nil, errors.New("sim:cuda runs on Linux, in a binary built without the tag nosim")
}
