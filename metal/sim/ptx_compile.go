package sim

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"lilypad/metal"
)

// ptxFlags are clang's: switches F1, F2 and F4 of what MSL demands, and no fast math. Program scope and the generic address
// space stay on: here constant pointers are global ones. sim:cpu's compiler is the one that checks address spaces.
var ptxFlags = strings.Fields(`-x cl -cl-std=CLC++2021 -cl-no-stdinc -O3 -ffp-contract=off -fno-math-errno
	-target nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx78
	-Xclang -cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_device_enqueue,-__opencl_c_pipes,+cl_khr_fp16,+__opencl_c_generic_address_space,+__opencl_c_program_scope_global_variables
	-Werror=pre-c++17-compat-pedantic -Wno-unknown-attributes -S -o - -`)

//go:embed rt/metal_stdlib rt/*.h
var ptxHeaders embed.FS

// headerHash names the headers' text.
var headerHash = sync.OnceValue(func() string {
	h := sha256.New()
	_ = fs.WalkDir(ptxHeaders, "rt", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := ptxHeaders.ReadFile(path)
			fmt.Fprintln(h, path, len(text))
			h.Write(text)
		}
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil))
})

// compilePTX compiles C++ for OpenCL. What clang refuses is a *metal.CompileError.
func compilePTX(text string) (string, error) {
	clang, err := findClang()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "lilypad-ptx-*")
	if err != nil {
		return "", fmt.Errorf("unpacking the headers of metal_stdlib: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, ptxHeaders); err != nil {
		return "", fmt.Errorf("unpacking the headers of metal_stdlib: %w", err)
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command(clang, append([]string{"-I", filepath.Join(dir, "rt")}, ptxFlags...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &complaints
	if err := cmd.Run(); err != nil {
		if complaints.Len() == 0 {
			return "", fmt.Errorf("running %s: %w", clang, err)
		}
		return "", &metal.CompileError{Line: firstLine(complaints.String()), Text: complaints.String()}
	}
	return out.String(), nil
}

var complaint = regexp.MustCompile(`(?m)^kernel\.metal:(\d+):\d+: error`)

// firstLine is the line of clang's first error in the kernel's source; 0 if there is none.
func firstLine(text string) int {
	m := complaint.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	line, _ := strconv.Atoi(m[1])
	return line
}

// findClang is the path of the compiler; an error says what to install.
func findClang() (string, error) {
	for _, name := range []string{"clang-16", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no clang-16 on the PATH: install it, or carry the PTX here (Options.PTX)")
}
