package sim

import (
	"fmt"
	"regexp"
	"strings"
)

var functionAttributes = regexp.MustCompile(`(?m)^(attributes #\d+ = \{ )`)

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
	dropHeaderLines(lines)
	if m.check {
		lines = addSites(lines)
	}
	code = strings.Join(lines, "\n")
	if m.asan {
		code = functionAttributes.ReplaceAllString(code, "${1}sanitize_address ")
	}
	if !m.check && !m.asan {
		code = threadgroupArray.ReplaceAllString(code, "${1}thread_local(localdynamic) ${2}")
	}
	return code, nil
}

var (
	subprogram = regexp.MustCompile(`^(!\d+) = .*!DISubprogram\(.*\bfile: (!\d+)`)
	sourceFile = regexp.MustCompile(`^(!\d+) = !DIFile\(filename: "([^"]*)"`)
	location   = regexp.MustCompile(`,? !dbg (!\d+)`)
)

// dropHeaderLines takes the line numbers of the header's functions away: what is inlined from there then counts as the line
// of its caller.
func dropHeaderLines(lines []string) {
	files, functions := map[string]string{}, map[string]string{}
	for _, line := range lines {
		if m := sourceFile.FindStringSubmatch(line); m != nil {
			files[m[1]] = m[2]
		} else if m := subprogram.FindStringSubmatch(line); m != nil {
			functions[m[1]] = m[2]
		}
	}
	inHeader := false
	for i, line := range lines {
		if strings.HasPrefix(line, "define ") {
			m := location.FindStringSubmatch(line)
			inHeader = m != nil && files[functions[m[1]]] != "kernel.metal"
		}
		if inHeader {
			lines[i] = location.ReplaceAllString(line, "")
		}
		if line == "}" {
			inHeader = false
		}
	}
}
