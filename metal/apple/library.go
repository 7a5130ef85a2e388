package apple

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unsafe"

	"lilypad/metal"
)

// How sources are compiled.
const (
	languageVersion  = 3<<16 | 1 // MTLLanguageVersion3_1: macOS 14, bfloat
	mathSafe         = 0         // MTLMathModeSafe
	functionsPrecise = 1         // MTLMathFloatingPointFunctionsPrecise; the default is fast in every mode
	executionWidth   = metal.SimdWidth
	dataTypeFloat    = 3  // MTLDataTypeFloat
	dataTypeInt      = 29 // MTLDataTypeInt
	dataTypeUint     = 33 // MTLDataTypeUInt
	dataTypeBool     = 53 // MTLDataTypeBool
)

type library struct {
	d      *driver
	object uintptr // MTLLibrary
}

func (d *driver) NewLibrary(_, source string) (metal.DriverLibrary, error) {
	if err := d.here(); err != nil {
		return nil, err
	}
	r := d.r
	defer r.drain(r.pool())
	options := r.send(r.classes[classCompileOptions], selNew)
	defer r.release(options)
	if err := r.knows(options, "MTLCompileOptions"); err != nil {
		return nil, err
	}
	r.send(options, selSetLanguageVersion, languageVersion)
	if r.responds(options, selSetMathMode) {
		r.send(options, selSetMathMode, mathSafe)
		r.send(options, selSetMathFloatingPointFunctions, functionsPrecise)
	} else {
		r.send(options, selSetFastMathEnabled, 0)
	}
	text := r.newString(source)
	defer r.release(text)
	object, fault := r.try(d.device, selNewLibrary, text, options)
	if object == 0 { // warnings come as an error too, beside the library
		return nil, compileError(r.describe(fault))
	}
	if err := r.knows(object, "MTLLibrary"); err != nil {
		r.release(object)
		return nil, err
	}
	return &library{d, object}, nil
}

// complaint finds errors of the source, mention whatever else names a line of it: an error may lie in Apple's headers,
// with a note on what led there.
var (
	complaint = regexp.MustCompile(`(?m)^program_source:(\d+):\d+: (?:fatal )?error: `)
	mention   = regexp.MustCompile(`(?m)^program_source:(\d+):\d+: note: `)
)

// compileError finds the line of the first error in what the compiler wrote.
func compileError(text string) *metal.CompileError {
	e := &metal.CompileError{Text: text}
	for _, form := range [...]*regexp.Regexp{complaint, mention} {
		if m := form.FindStringSubmatch(text); m != nil {
			e.Line, _ = strconv.Atoi(m[1])
			break
		}
	}
	return e
}

func (l *library) Close() { l.d.r.release(l.object) }

type pipeline struct {
	d                       *driver
	object                  uintptr // MTLComputePipelineState
	maxThreads, threadgroup int
}

func (l *library) NewPipeline(name string, constants []metal.Constant) (metal.DriverPipeline, error) {
	if err := l.d.here(); err != nil {
		return nil, err
	}
	r := l.d.r
	defer r.drain(r.pool())
	function, err := l.function(name, constants)
	if err != nil {
		return nil, err
	}
	defer r.release(function)
	object, fault := r.try(l.d.device, selNewPipeline, function)
	if object == 0 {
		return nil, errors.New(r.describe(fault))
	}
	p := &pipeline{d: l.d, object: object}
	if err := r.knows(object, "MTLComputePipelineState"); err != nil {
		p.Close()
		return nil, err
	}
	p.maxThreads = int(r.send(object, selMaxTotalThreads))
	p.threadgroup = int(r.send(object, selStaticThreadgroupMemory))
	if n := r.send(object, selThreadExecutionWidth); n != executionWidth {
		p.Close()
		return nil, fmt.Errorf("it runs in simdgroups of %d threads, want %d", n, executionWidth)
	}
	return p, nil
}

// function returns an owned MTLFunction. A function that mentions constants must be asked for with a set of values, be it
// empty; one that mentions none may be.
func (l *library) function(name string, constants []metal.Constant) (uintptr, error) {
	r := l.d.r
	values := r.send(r.classes[classConstantValues], selNew)
	defer r.release(values)
	if err := r.knows(values, "MTLFunctionConstantValues"); err != nil {
		return 0, err
	}
	for _, c := range constants {
		bits := c.Bits // little endian, so a bool's byte comes first
		r.sendPointers(values, selSetConstantValue, uintptr(unsafe.Pointer(&bits)), dataType(c.Type), uintptr(c.ID))
	}
	text := r.newString(name)
	defer r.release(text)
	object, fault := r.try(l.object, selNewFunction, text, values)
	if object == 0 {
		return 0, errors.New(r.describe(fault))
	}
	return object, nil
}

func dataType(t metal.ConstantType) uintptr {
	return [...]uintptr{
		metal.BoolConstant: dataTypeBool, metal.IntConstant: dataTypeInt,
		metal.UintConstant: dataTypeUint, metal.FloatConstant: dataTypeFloat,
	}[t]
}

func (p *pipeline) MaxThreads() int        { return p.maxThreads }
func (p *pipeline) ThreadgroupMemory() int { return p.threadgroup }
func (p *pipeline) Close()                 { p.d.r.release(p.object) }
