package sim

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lilypad/metal/sim/msl"
)

// frontFlags turn MSL, rewritten as C++ for OpenCL, into LLVM's language. They take away what OpenCL has and MSL hasn't:
// double, OpenCL's library, variables at file scope, what C++17 brought. Nothing is optimised yet: code is edited first.
var frontFlags = strings.Fields(`-cl-std=CLC++2021 -cl-no-stdinc -target x86_64-linux-gnu -march=haswell
	-O3 -Xclang -disable-llvm-passes -ffp-contract=off -fno-math-errno -fPIC -gline-tables-only
	-Xclang -cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables,-__opencl_c_device_enqueue,-__opencl_c_pipes
	-Werror=pre-c++17-compat-pedantic -Wno-unknown-attributes`)

// runtimeFlags make the fiber runtime.
var runtimeFlags = strings.Fields(`-O2 -mno-red-zone -fPIC -shared -std=gnu11 -pthread`)

// editRevision stands in the cache's keys. It grows with what is done to code between clang's runs.
const editRevision = "3"

// mode is how code for the CPU is made.
type mode struct {
	check bool // with calls that count and compare, on one thread
	asan  bool // with AddressSanitizer, on one thread
}

func (m mode) backFlags() []string {
	flags := "-x ir -fPIC -shared -nostdlib -Wno-override-module -O3"
	if m.check {
		flags += " -O1"
	}
	if m.asan {
		flags += " -O1 -fsanitize=address -shared-libasan -fsanitize-address-use-after-return=never"
	}
	return strings.Fields(flags)
}

// SanitizerLibrary is the path of AddressSanitizer's runtime. In a process that was started with it in LD_PRELOAD, sim:cpu
// compiles kernels so that every access outside its object ends the process with a report (see simtest.UnderASan).
func SanitizerLibrary() (string, error) {
	t, err := newToolchain("")
	if err != nil {
		return "", err
	}
	out, err := t.run("", "-print-file-name=libclang_rt.asan-x86_64.so")
	if err != nil {
		return "", err
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("clang-16 has no %s: %w", path, ErrNoCompiler)
	}
	return path, nil
}

// front runs clang's front end on text, with the header read beforehand, which saves two thirds of the time.
func (t *toolchain) front(text string, what ...string) ([]byte, error) {
	header, err := t.cached(".pch", func(path string) error {
		args := append([]string{"-x", "cl-header", "-Xclang", "-fno-pch-timestamp", "-I", t.include()}, frontFlags...)
		_, err := t.run("", append(args, "-o", path, filepath.Join(t.include(), "metal_stdlib"))...)
		return err
	}, "header", t.include(), fmt.Sprint(frontFlags))
	if err != nil {
		return nil, fmt.Errorf("compiling the header: %w", err)
	}
	args := append([]string{"-x", "cl", "-include-pch", header, "-I", t.include()}, frontFlags...)
	return t.run(text, append(args, what...)...)
}

// checkSyntax asks clang whether it takes text at all. What it accepted once is not asked again.
func (t *toolchain) checkSyntax(text string) error {
	_, err := t.cached(".ok", func(path string) error {
		if _, err := t.front(text, "-fsyntax-only", "-"); err != nil {
			return err
		}
		return writeWhole(path, nil)
	}, text, fmt.Sprint(frontFlags))
	return err
}

// compile makes a shared library of one kernel of text and returns its path. Where accesses are counted, that happens to
// optimised code: what is left of private variables there is arrays.
func (t *toolchain) compile(text, function string, m mode) (string, error) {
	return t.cached(".so", func(path string) error {
		code, err := t.front(text, "-S", "-emit-llvm", "-o", "-", "-")
		if err != nil {
			return err
		}
		edited, err := editIR(string(code), function, m)
		if err != nil {
			return err
		}
		if m.check {
			small, err := t.run(edited, "-x", "ir", "-O1", "-S", "-emit-llvm", "-Wno-override-module", "-o", "-", "-")
			if err != nil {
				return err
			}
			edited = instrument(string(small))
		}
		_, err = t.run(edited, append(m.backFlags(), "-o", path, "-")...)
		return err
	}, text, function, editRevision, fmt.Sprint(m, frontFlags, m.backFlags()))
}

// compileRuntime makes the shared library of the fiber runtime.
func (t *toolchain) compileRuntime() (string, error) {
	return t.cached(".so", func(path string) error {
		dir := t.include()
		_, err := t.run("", append(runtimeFlags, "-o", path, dir+"/fiber.c", dir+"/pool.c", dir+"/trace.c")...)
		return err
	}, "runtime", runtimeHash(), fmt.Sprint(runtimeFlags))
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
