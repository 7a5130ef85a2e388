package sim

import (
	"fmt"
	"regexp"
	"strings"
)

// Threadgroup arrays are internal globals without a value; constants have one.
var threadgroupArray = regexp.MustCompile(`(?m)^(@\S+ = internal )(global .* undef)`)

// editIR changes clang's unoptimised output: only the wanted kernel stays visible, and every thread of the pool gets
// threadgroup arrays of its own. With checks one thread does all, and the arrays stay where AddressSanitizer sees them.
func editIR(code, function string, m mode) (string, error) {
	kept := 0
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "define ") || !strings.Contains(line, "spir_kernel") {
			continue
		}
		if strings.Contains(line, " @"+function+"(") {
			kept++
			continue
		}
		line = strings.Replace(line, "define dso_local", "define", 1)
		lines[i] = strings.Replace(line, "define ", "define internal ", 1)
	}
	if kept != 1 {
		return "", fmt.Errorf("there is no kernel %s", function)
	}
	code = strings.Join(lines, "\n")
	if !m.check {
		code = threadgroupArray.ReplaceAllString(code, "${1}thread_local(localdynamic) ${2}")
	}
	return code, nil
}
