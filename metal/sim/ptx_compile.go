package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ptxTarget chooses the machine: sm_80 knows all that kernels use.
const ptxTarget = " -target nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx78 -S"

// ptxFrontFlags turn MSL, rewritten, into LLVM's language: switches F1, F2 and F4 of what MSL demands, and no fast math.
// Program scope and the generic address space stay on, since constant pointers are global ones here: sim:cpu's compiler is
// the one that checks address spaces. ptxBackFlags turn that into PTX.
var (
	ptxFrontFlags = strings.Fields(`-x cl -cl-std=CLC++2021 -cl-no-stdinc -O3 -Xclang -disable-llvm-passes -emit-llvm
	-ffp-contract=off -fno-math-errno -Werror=pre-c++17-compat-pedantic -Wno-unknown-attributes
	-Xclang -cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_device_enqueue,-__opencl_c_pipes,+cl_khr_fp16,+__opencl_c_generic_address_space,+__opencl_c_program_scope_global_variables` + ptxTarget)
	ptxBackFlags = strings.Fields(`-x ir -O3 -Wno-override-module` + ptxTarget)
)

// compile compiles one kernel of C++ for OpenCL. What clang refuses is a *metal.CompileError.
func (m *ptxMaker) compile(text, function string) (string, error) {
	if m.tools == nil {
		tools, err := newToolchain(m.cacheDir)
		if err != nil {
			return "", fmt.Errorf("%w, and the PTX is not in %s", err, m.dir)
		}
		m.tools = tools
	}
	front := append([]string{"-I", m.tools.include()}, ptxFrontFlags...)
	header, err := m.header(front)
	if err != nil {
		return "", err
	}
	code, err := m.tools.run(text, append(front, "-Xclang", "-include-pch", "-Xclang", header, "-o", "-", "-")...)
	if err != nil {
		return "", err
	}
	ptx, err := m.tools.run(hideKernels(string(code), function), append(ptxBackFlags, "-o", "-", "-")...)
	return string(ptx), err
}

// header is metal_stdlib as the compiler keeps it after reading, which takes most of its time.
func (m *ptxMaker) header(front []string) (string, error) {
	return m.tools.cached(".pch", func(path string) error {
		_, err := m.tools.run("#include <metal_stdlib>\n", append(front, "-Xclang", "-emit-pch", "-o", path, "-")...)
		return err
	}, fmt.Sprint(front))
}

var (
	kernelHead  = regexp.MustCompile(`(?m)^define dso_local (spir_kernel .*@(\w+)\()`)
	annotations = regexp.MustCompile(`(?m)^!nvvm\.annotations = .*$`)
	annotation  = regexp.MustCompile(`(?m)^(!\d+) = !\{ptr @(\w+), !"kernel", i32 1\}$`)
)

// hideKernels makes all kernels but one internal functions that nobody calls, so that no time goes into them.
func hideKernels(code, function string) string {
	code = kernelHead.ReplaceAllStringFunc(code, func(head string) string {
		m := kernelHead.FindStringSubmatch(head)
		if m[2] == function {
			return head
		}
		return "define internal " + m[1]
	})
	for _, m := range annotation.FindAllStringSubmatch(code, -1) {
		if m[2] == function {
			return annotations.ReplaceAllString(code, "!nvvm.annotations = !{"+m[1]+"}")
		}
	}
	return code
}

var (
	complaint = regexp.MustCompile(`(?m)^kernel\.metal:(\d+):\d+: error`)
	named     = regexp.MustCompile(`(?m)^kernel\.metal:(\d+):`)
)

// firstLine is the line of clang's first error in the kernel's source, or the first that it names there because of an
// error in the header; 0 if there is none.
func firstLine(text string) int {
	m := complaint.FindStringSubmatch(text)
	if m == nil {
		if m = named.FindStringSubmatch(text); m == nil {
			return 0
		}
	}
	line, _ := strconv.Atoi(m[1])
	return line
}
