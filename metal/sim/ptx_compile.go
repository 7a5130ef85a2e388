package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ptxFlags are clang's: switches F1, F2 and F4 of what MSL demands, and no fast math. Program scope and the generic address
// space stay on: here constant pointers are global ones. sim:cpu's compiler is the one that checks address spaces.
var ptxFlags = strings.Fields(`-x cl -cl-std=CLC++2021 -cl-no-stdinc -O3 -ffp-contract=off -fno-math-errno
	-target nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx78
	-Xclang -cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_device_enqueue,-__opencl_c_pipes,+cl_khr_fp16,+__opencl_c_generic_address_space,+__opencl_c_program_scope_global_variables
	-Werror=pre-c++17-compat-pedantic -Wno-unknown-attributes -S -o - -`)

// compile compiles C++ for OpenCL. What clang refuses is a *metal.CompileError.
func (m *ptxMaker) compile(text string) (string, error) {
	if m.tools == nil {
		tools, err := newToolchain(m.cacheDir)
		if err != nil {
			return "", fmt.Errorf("%w, and the PTX is not in %s", err, m.dir)
		}
		m.tools = tools
	}
	ptx, err := m.tools.run(text, append([]string{"-I", m.tools.include()}, ptxFlags...)...)
	return string(ptx), err
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
