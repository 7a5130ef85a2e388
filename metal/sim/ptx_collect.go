package sim

import (
	"os"
	"strconv"

	"lilypad/metal"
)

// collecting wraps driver in a collector where the environment variable LILYPAD_PTX names a directory for PTX.
func collecting(driver metal.Driver, o Options) metal.Driver {
	if os.Getenv("LILYPAD_PTX") == "" {
		return driver
	}
	return &collector{driver, newPTXMaker(o)}
}

// collector is another driver that also makes the PTX of every pipeline asked of it: what a run needs here is what the same
// run needs on a machine with an NVIDIA GPU and no clang.
type collector struct {
	metal.Driver
	ptx *ptxMaker
}

// Info gives the cores of the machine that the PTX is for where the environment variable LILYPAD_PTX_CORES says how many: what
// is asked of a device depends on them.
func (c *collector) Info() metal.Info {
	info := c.Driver.Info()
	if cores, err := strconv.Atoi(os.Getenv("LILYPAD_PTX_CORES")); err == nil {
		info.Cores = cores
	}
	return info
}

type collectedLibrary struct {
	metal.DriverLibrary
	ptx    *ptxMaker
	source *ptxSource
}

// NewLibrary translates the source, too.
func (c *collector) NewLibrary(name, source string) (metal.DriverLibrary, error) {
	l, err := c.Driver.NewLibrary(name, source)
	if err != nil {
		return nil, err
	}
	s, err := c.ptx.translate(source)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &collectedLibrary{l, c.ptx, s}, nil
}

// NewPipeline makes the kernel's PTX, then the other driver's pipeline.
func (l *collectedLibrary) NewPipeline(function string, constants []metal.Constant) (metal.DriverPipeline, error) {
	if _, err := l.ptx.kernel(l.source, function, constants); err != nil {
		return nil, err
	}
	return l.DriverLibrary.NewPipeline(function, constants)
}
