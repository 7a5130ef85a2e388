//go:build linux && !nosim

package sim

import (
	"fmt"
	"unsafe"

	"lilypad/metal"
)

// cudaLibrary is a translated source; its pipelines are compiled one by one, as their constants come.
type cudaLibrary struct {
	driver *cudaDriver
	source *ptxSource
}

// NewLibrary translates source.
func (d *cudaDriver) NewLibrary(_, source string) (metal.DriverLibrary, error) {
	s, err := d.ptx.translate(source)
	if err != nil {
		return nil, err
	}
	return &cudaLibrary{driver: d, source: s}, nil
}

func (l *cudaLibrary) Close() {}

// cudaPipeline is a kernel, loaded.
type cudaPipeline struct {
	driver           *cudaDriver
	module, function uintptr
	arguments        int
	constants        int // bytes of the last argument, which is passed by value; 0 for a pointer
	maxThreads       int
	shared           int
}

// NewPipeline compiles the kernel and lets the driver library make machine code of it.
func (l *cudaLibrary) NewPipeline(function string, constants []metal.Constant) (metal.DriverPipeline, error) {
	k, err := l.driver.ptx.kernel(l.source, function, constants)
	if err != nil {
		return nil, err
	}
	d := l.driver
	leave := d.enter()
	defer leave()
	p := &cudaPipeline{driver: d, arguments: k.arguments, constants: k.constants}
	text := k.text
	if d.overlap {
		text = overlapping(text)
	}
	if err := d.load(p, function, text); err != nil {
		return nil, err
	}
	name := append([]byte(function), 0)
	err = d.call("finding "+function, d.moduleFunction, uintptr(unsafe.Pointer(&p.function)), p.module, uintptr(unsafe.Pointer(&name[0])))
	const maxThreads, sharedBytes = 0, 1 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, _SHARED_SIZE_BYTES
	for attribute, at := range map[uintptr]*int{maxThreads: &p.maxThreads, sharedBytes: &p.shared} {
		var value int32
		if err == nil {
			err = d.call("asking about "+function, d.functionAttribute, uintptr(unsafe.Pointer(&value)), attribute, p.function)
		}
		*at = int(value)
	}
	if k.maxThreads > 0 {
		p.maxThreads = min(p.maxThreads, k.maxThreads)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// load compiles PTX; the driver library's complaints become the error's text.
func (d *cudaDriver) load(p *cudaPipeline, function, text string) error {
	const logSize = 8 << 10
	log := make([]byte, logSize)
	image := append([]byte(text), 0)
	options := [...]int32{5, 6} // CU_JIT_ERROR_LOG_BUFFER, _SIZE_BYTES
	values := struct {
		log  unsafe.Pointer
		size uintptr
	}{unsafe.Pointer(&log[0]), logSize}
	err := d.call("compiling the PTX of "+function, d.moduleLoad, uintptr(unsafe.Pointer(&p.module)),
		uintptr(unsafe.Pointer(&image[0])), uintptr(len(options)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&values)))
	if err != nil {
		return &metal.CompileError{Text: fmt.Sprintf("%v\n%s", err, goString(&log[0]))}
	}
	return nil
}

func (p *cudaPipeline) MaxThreads() int        { return p.maxThreads }
func (p *cudaPipeline) ThreadgroupMemory() int { return p.shared }

func (p *cudaPipeline) Close() {
	leave := p.driver.enter()
	defer leave()
	_ = p.driver.call("unloading a kernel", p.driver.moduleUnload, p.module)
}

// cudaDispatch is a launch with its arguments laid out as cuLaunchKernel wants them: a list of their addresses. All of
// it is Go memory, which does not move, and the dispatch keeps it alive.
type cudaDispatch struct {
	pipeline  *cudaPipeline
	launch    *metal.Launch
	groups    metal.Size
	addresses []uintptr // of the buffers' bytes
	bytes     []byte    // the constants; as many as the kernel reads, or more
	arguments []uintptr // addresses of the addresses, and of the constants
}

// NewDispatch lays the arguments out.
func (d *cudaDriver) NewDispatch(l *metal.Launch) (metal.DriverDispatch, error) {
	p := l.Pipeline.Driver().(*cudaPipeline)
	given := len(l.Buffers)
	if len(l.Bytes) > 0 {
		given++
	}
	if given != p.arguments {
		return nil, fmt.Errorf("%d arguments for a kernel of %d", given, p.arguments)
	}
	if byValue := p.constants > 0; byValue != (len(l.Bytes) > 0) {
		return nil, fmt.Errorf("the last argument: constants are a kernel's last argument, a constant reference, and no other may be one")
	}
	if p.constants < metal.MaxBytes && len(l.Bytes) < p.constants {
		return nil, fmt.Errorf("%d bytes of constants, but the kernel reads %d", len(l.Bytes), p.constants)
	}
	c := &cudaDispatch{pipeline: p, launch: l, groups: l.Groups, addresses: make([]uintptr, len(l.Buffers))}
	c.arguments = make([]uintptr, given)
	for i := range l.Buffers {
		b := &l.Buffers[i]
		c.addresses[i] = b.Buffer.Driver().(*cudaBuffer).at + uintptr(b.Offset)
		c.arguments[i] = uintptr(unsafe.Pointer(&c.addresses[i]))
	}
	if len(l.Bytes) > 0 {
		c.bytes = make([]byte, max(len(l.Bytes), p.constants))
		copy(c.bytes, l.Bytes)
		c.arguments[len(l.Buffers)] = uintptr(unsafe.Pointer(&c.bytes[0]))
	}
	return c, nil
}

func (c *cudaDispatch) SetBytes(b []byte)           { copy(c.bytes, b) }
func (c *cudaDispatch) SetGroups(groups metal.Size) { c.groups = groups }
func (c *cudaDispatch) Close()                      {}
