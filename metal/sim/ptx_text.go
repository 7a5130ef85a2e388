package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lilypad/metal"
)

// unresolved finds functions that the compiler could not build and left to a linker that does not exist.
var unresolved = regexp.MustCompile(`(?m)^\.extern \.func .*?(\w+)\s*$`)

// checkPTX refuses PTX that would not load.
func checkPTX(text string) error {
	if m := unresolved.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("the PTX calls %s, which nothing defines", m[1])
	}
	if strings.Contains(text, ".extern ") {
		return fmt.Errorf("the PTX refers to something outside of it")
	}
	return nil
}

// entry is where kernel name stands in PTX: [start, end), its body from the opening brace on.
func entry(text, name string) (start, body, end int, err error) {
	start = strings.Index(text, ".visible .entry "+name+"(")
	if start < 0 {
		return 0, 0, 0, fmt.Errorf("the PTX has no kernel %s", name)
	}
	body = start + strings.Index(text[start:], "\n{")
	end = body + strings.Index(text[body:], "\n}\n")
	if body < start || end < body {
		return 0, 0, 0, fmt.Errorf("the PTX of kernel %s has no end", name)
	}
	return start, body, end + 3, nil
}

// onlyKernel drops all other kernels.
func onlyKernel(text, name string) (string, error) {
	if _, _, _, err := entry(text, name); err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		at := strings.Index(text, ".visible .entry ")
		if at < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		other, _, _ := strings.Cut(text[at+len(".visible .entry "):], "(")
		_, _, end, err := entry(text, other)
		if err != nil {
			return "", err
		}
		out.WriteString(text[:at])
		if other == name {
			out.WriteString(text[at:end])
		}
		text = text[end:]
	}
}

var (
	registers = regexp.MustCompile(`%rd\d+`)
	loads     = regexp.MustCompile(`^(\s*(?:@!?%p\d+ )?)ld\.global(?:\.nc)?((?:\.v[24])?\.[a-z](\d+)\s.*, )\[(%rd\d+)(?:\+(\d+))?\];$`)
	moves     = regexp.MustCompile(`^\s*(?:add\.[su]64|mov\.[bu]64|cvta\.to\.global\.u64|mad\.\w+\.[su](?:32|64)|or\.b64)\s+(%rd\d+), (.*);$`)
)

// passByValue rewrites the parameter of a kernel that points to its constants into the constants themselves: they arrive
// with the launch, and reading them costs no trip to memory. It returns the bytes the kernel reads of them at most, a
// multiple of 4; metal.MaxBytes where an index decides.
func passByValue(text, kernel string, parameter int) (string, int, error) {
	start, body, end, err := entry(text, kernel)
	if err != nil {
		return "", 0, err
	}
	name := fmt.Sprintf("%s_param_%d", kernel, parameter)
	lines := strings.Split(text[body:end], "\n")
	roots, derived, err := constantRegisters(lines, name, kernel)
	if err != nil {
		return "", 0, err
	}
	size := 4
	if len(derived) > 0 {
		size = metal.MaxBytes
	}
	for i, line := range lines {
		m := loads.FindStringSubmatch(line)
		switch {
		case strings.Contains(line, "["+name+"]") && len(derived) > 0:
			r := registers.FindString(line)
			lines[i] = fmt.Sprintf("\tmov.b64 %s, %s;\n\tcvta.param.u64 %s, %s;", r, name, r, r)
		case strings.Contains(line, "["+name+"]"):
			lines[i] = ""
		case m == nil:
		case len(derived) > 0 && (roots[m[4]] || derived[m[4]]):
			lines[i] = strings.Replace(strings.Replace(line, "ld.global.nc", "ld", 1), "ld.global", "ld", 1)
		case roots[m[4]]:
			offset, _ := strconv.Atoi("0" + m[5])
			size = max(size, offset+loadBytes(m[2], m[3]))
			lines[i] = fmt.Sprintf("%sld.param%s[%s+%d];", m[1], m[2], name, offset)
		}
	}
	size = (size + 3) &^ 3
	head := strings.Replace(text[start:body], ".param .u64 "+name, fmt.Sprintf(".param .align 16 .b8 %s[%d]", name, size), 1)
	return text[:start] + head + strings.Join(lines, "\n") + text[end:], size, nil
}

func loadBytes(kind, bits string) int {
	n, _ := strconv.Atoi(bits)
	switch {
	case strings.HasPrefix(kind, ".v2"):
		n *= 2
	case strings.HasPrefix(kind, ".v4"):
		n *= 4
	}
	return n / 8
}

// constantRegisters finds the registers that hold the parameter's value (roots) and addresses computed from it. Any use
// of them but in loads and such computations is an error.
func constantRegisters(lines []string, parameter, kernel string) (roots, derived map[string]bool, err error) {
	roots, derived = map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		if strings.Contains(line, "["+parameter+"]") {
			roots[registers.FindString(line)] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, line := range lines {
			m := moves.FindStringSubmatch(line)
			if m == nil || roots[m[1]] || derived[m[1]] {
				continue
			}
			for _, r := range registers.FindAllString(m[2], -1) {
				if roots[r] || derived[r] {
					derived[m[1]], grown = true, true
				}
			}
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "["+parameter+"]") || loads.MatchString(line) || moves.MatchString(line) {
			continue
		}
		for _, r := range registers.FindAllString(line, -1) {
			if roots[r] || derived[r] {
				return nil, nil, fmt.Errorf("kernel %s uses its constants in a way that rules out passing them by value: %s", kernel, strings.TrimSpace(line))
			}
		}
	}
	return roots, derived, nil
}

// limitThreads tells the driver's compiler how many threads a threadgroup of the kernel has at most: fewer threads may have
// more registers each.
func limitThreads(text, kernel string, threads int) (string, error) {
	_, body, _, err := entry(text, kernel)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n.maxntid %d, 1, 1%s", text[:body], threads, text[body:]), nil
}

// overlapping lets a kernel be set up while the one it depends on still runs: it waits for that one's end before it
// touches memory, then lets those that depend on it be set up in turn. Not before: a kernel's first caches are emptied when it is
// set up, and what still reads then must not be what its producer overwrites. Such instructions need sm_90.
func overlapping(text string) string {
	const wait = "\tgriddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;\n"
	text = strings.Replace(text, ".target sm_80", ".target sm_90", 1)
	var out strings.Builder
	for {
		at := strings.Index(text, ".visible .entry ")
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		at += strings.Index(text[at:], "\n{\n") + 3
		for local.MatchString(text[at:]) {
			at += strings.IndexByte(text[at:], '\n') + 1
		}
		out.WriteString(text[:at] + wait)
		text = text[at:]
	}
}

// local matches a line of a kernel that needs nothing of another: a declaration, or arithmetic on arguments and indices.
var local = regexp.MustCompile(`^\s*(?://[^\n]*|\.(?:reg|local|shared)[^\n]*|(?:ld\.param|mov|cvta|cvt|mad|mul|add|sub|shl|shr|and|or|xor|not|neg|setp|selp|min|max|bfe|bfi|fma)\.[^\n]*)?\n`)
