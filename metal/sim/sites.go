package sim

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	meetingCall  = regexp.MustCompile(`call .*@_ZN5metal\d*(simd_|simdgroup_|quad_|threadgroup_barrier|ml).*!dbg (!\d+)`)
	lineNumber   = regexp.MustCompile(`^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)`)
	vectorAccess = regexp.MustCompile(`^  (?:%\S+ = )?(load|store) (.*)`)
)

// addSites puts calls into code that is not optimised: sim_site before each meeting of threads, with its line, and
// sim_aligned before each access to a vector.
func addSites(lines []string) []string {
	numbers := map[string]string{}
	for _, line := range lines {
		if m := lineNumber.FindStringSubmatch(line); m != nil {
			numbers[m[1]] = m[2]
		}
	}
	out := make([]string, 0, 2*len(lines))
	locals := map[string]bool{}
	for _, line := range lines {
		if strings.HasPrefix(line, "define ") {
			clear(locals)
		}
		if m := functionLocal.FindStringSubmatch(line); m != nil {
			locals[m[1]] = true
		}
		location := debugLocation.FindString(line)
		if m := meetingCall.FindStringSubmatch(line); m != nil && numbers[m[2]] != "" {
			out = append(out, fmt.Sprintf("  call void @sim_site(i32 %s)%s", numbers[m[2]], location))
		}
		if m := vectorAccess.FindStringSubmatch(line); m != nil && m[2][0] == '<' {
			a := accesses(m[1], m[2])[0]
			if !locals[a.pointer] {
				out = append(out, fmt.Sprintf("  call void @sim_aligned(ptr %s, i32 %s)%s", a.pointer, a.last, location))
			}
		}
		out = append(out, line)
	}
	return append(out, "declare void @sim_site(i32)", "declare void @sim_aligned(ptr, i32)")
}
