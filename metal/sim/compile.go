package sim

import (
	"errors"
	"fmt"
	"strings"

	"lilypad/metal/sim/msl"
)

// frontFlags turn MSL, rewritten as C++ for OpenCL, into LLVM's language. They take away what OpenCL has and MSL hasn't:
// double, OpenCL's library, variables at file scope, what C++17 brought. Nothing is optimised yet: code is edited first.
var frontFlags = strings.Fields(`-x cl -cl-std=CLC++2021 -cl-no-stdinc -target x86_64-linux-gnu -march=haswell
	-O3 -Xclang -disable-llvm-passes -ffp-contract=off -fno-math-errno -fPIC -gline-tables-only
	-Xclang -cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables,-__opencl_c_device_enqueue,-__opencl_c_pipes
	-Werror=pre-c++17-compat-pedantic -Wno-unknown-attributes`)

// runtimeFlags make the fiber runtime.
var runtimeFlags = strings.Fields(`-O2 -fPIC -shared -std=gnu11 -pthread`)

// mode is how code for the CPU is made.
type mode struct {
	check bool // count accesses, run on one thread
	asan  bool // with AddressSanitizer
}

func (m mode) backFlags() []string {
	flags := "-x ir -O3 -fPIC -shared -nostdlib -Wno-override-module"
	if m.check {
		flags = "-x ir -O1 -fPIC -shared -nostdlib -Wno-override-module -mllvm -tail-dup-placement=false -mllvm -disable-tail-duplicate -mllvm -disable-early-taildup"
	}
	if m.asan {
		flags += " -fsanitize=address -shared-libasan"
	}
	return strings.Fields(flags)
}

// checkSyntax asks clang whether it takes text at all. What it accepted once is not asked again.
func (t *toolchain) checkSyntax(text string) error {
	_, err := t.cached(".ok", func(path string) error {
		args := append([]string{"-I", t.include()}, frontFlags...)
		if _, err := t.run(text, append(args, "-fsyntax-only", "-")...); err != nil {
			return err
		}
		return writeWhole(path, nil)
	}, text, fmt.Sprint(frontFlags))
	return err
}

// compile makes a shared library of one kernel of text and returns its path.
func (t *toolchain) compile(text, function string, m mode) (string, error) {
	return t.cached(".so", func(path string) error {
		args := append([]string{"-I", t.include()}, frontFlags...)
		code, err := t.run(text, append(args, "-S", "-emit-llvm", "-o", "-", "-")...)
		if err != nil {
			return err
		}
		edited, err := editIR(string(code), function, m)
		if err != nil {
			return err
		}
		_, err = t.run(edited, append(m.backFlags(), "-o", path, "-")...)
		return err
	}, text, function, fmt.Sprint(m, frontFlags, m.backFlags()))
}

// compileRuntime makes the shared library of the fiber runtime.
func (t *toolchain) compileRuntime() (string, error) {
	return t.cached(".so", func(path string) error {
		dir := t.include()
		_, err := t.run("", append(runtimeFlags, "-o", path, dir+"/fiber.c", dir+"/pool.c")...)
		return err
	}, "runtime", fmt.Sprint(runtimeFlags))
}

// findKernel returns a kernel of u that drivers can run.
func findKernel(u *msl.Unit, function string) (*msl.Kernel, error) {
	k := u.Kernel(function)
	if k == nil {
		return nil, fmt.Errorf("there is no kernel %s", function)
	}
	if len(k.Threadgroups) > 0 {
		return nil, errors.New("threadgroup arguments are not simulated: declare the array in the kernel")
	}
	return k, nil
}
