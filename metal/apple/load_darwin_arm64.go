package apple

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// frameworks in the order of loading. None is linked without cgo, and device discovery from a command line needs
// CoreGraphics loaded before Metal.
var frameworks = [...]string{
	"/usr/lib/libobjc.A.dylib",
	"/usr/lib/libSystem.B.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/IOKit.framework/IOKit",
	"/System/Library/Frameworks/Metal.framework/Metal",
}

// system is what is looked up once per process; a driver works on a copy.
var system = sync.OnceValues(find)

// load returns a runtime for the calling thread.
func load() (*objc, error) {
	r, err := system()
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func find() (objc, error) {
	var r objc
	for _, path := range frameworks {
		if _, err := purego.Dlopen(path, purego.RTLD_GLOBAL|purego.RTLD_NOW); err != nil {
			return r, fmt.Errorf("loading %s: %w", path, err)
		}
	}
	addresses := map[string]uintptr{}
	list := []string{"objc_msgSend", "sel_registerName", "objc_getClass"}
	for _, f := range functions {
		list = append(list, f.name)
	}
	for _, name := range list {
		at, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
		if err != nil {
			return r, fmt.Errorf("looking up %s: %w", name, err)
		}
		addresses[name] = at
	}
	if err := r.register(addresses); err != nil {
		return r, err
	}
	return r, r.bind(addresses)
}

// register looks up selectors and classes, after the frameworks that bring them.
func (r *objc) register(addresses map[string]uintptr) error {
	for i, s := range selectors {
		r.selectors[i] = withName(addresses["sel_registerName"], s.name)
	}
	for i, c := range classes {
		r.classes[i] = withName(addresses["objc_getClass"], c.name)
		if r.classes[i] == 0 && c.since <= floor {
			return fmt.Errorf("class %s is missing", c.name)
		}
	}
	return nil
}

// withName calls a C function whose only argument is a name.
func withName(function uintptr, name string) uintptr {
	b := append([]byte(name), 0)
	r, _, _ := purego.SyscallN(function, uintptr(unsafe.Pointer(&b[0])))
	return r
}

func (r *objc) bind(addresses map[string]uintptr) (err error) {
	msgSend := addresses["objc_msgSend"]
	r.message = func(words []uintptr) uintptr {
		result, _, _ := purego.SyscallN(msgSend, words...)
		return result
	}
	purego.RegisterFunc(&r.double, msgSend) // SyscallN gives no result of the floating-point class
	var table [functionCount]uintptr
	for i, f := range functions {
		table[i] = addresses[f.name]
	}
	r.call = func(f function, words []uintptr) uintptr {
		result, _, _ := purego.SyscallN(table[f], words...)
		return result
	}
	if r.version, err = syscall.Sysctl("kern.osproductversion"); err != nil {
		return fmt.Errorf("asking for the version of macOS: %w", err)
	}
	if r.build, err = syscall.Sysctl("kern.osversion"); err != nil {
		return fmt.Errorf("asking for the build of macOS: %w", err)
	}
	return nil
}
