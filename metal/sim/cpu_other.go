//go:build !linux || !amd64 || nosim

package sim

import (
	"errors"
	"fmt"
	"runtime"

	"lilypad/metal"
)

func openCPU(Options) (metal.Driver, error) {
	return nil, fmt.Errorf("sim:cpu needs Linux on amd64 and a build without the tag nosim; this is %s on %s: %w",
		runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}
