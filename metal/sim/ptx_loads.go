package sim

import (
	"fmt"
	"regexp"
	"strings"
)

// What the driver's compiler does not do by itself, with code whose speed is that of its loads and its unpacking of bits.

var (
	masked = regexp.MustCompile(`\tand\.b32\s+(%r\d+), (%r\d+), (-?\d+);\n\tor\.b32\s+(%r\d+), (%r\d+), (-?\d+);\n`)
	block  = regexp.MustCompile(`^\$?\w+:|^\s*(?:@!?%p\d+ )?bra\b`) // a line that begins or ends one
	load   = regexp.MustCompile(`\bld\.global(?:\.nc)?\.`)
)

// fuseMasks makes one instruction of a mask and the setting of bits right behind it: d = a&b | c. The driver's compiler
// makes two where b and c are constants.
func fuseMasks(text string) string {
	return masked.ReplaceAllStringFunc(text, func(pair string) string {
		m := masked.FindStringSubmatch(pair)
		if m[1] != m[5] {
			return pair
		}
		and, _, _ := strings.Cut(pair, "\n") // its result may have other uses
		return fmt.Sprintf("%s\n\tlop3.b32 \t%s, %s, %s, %s, 0xEA;\n", and, m[4], m[2], m[3], m[6])
	})
}

// heldLoads is the mark that simdgroup_barrier(mem_flags::mem_none) leaves (rt/ptx.h).
const heldLoads = "// hold loads"

// holdLoads keeps loads in front of a mark, as far as they are in the same block, from being moved behind it: to save registers
// the driver's compiler moves each load to where its result is needed, and then they wait for each other. It does not do
// so with loads that take part in the memory model; these go past the first cache.
func holdLoads(text string) string {
	lines := strings.Split(text, "\n")
	first := 0
	for i, line := range lines {
		switch {
		case block.MatchString(line):
			first = i
		case strings.Contains(line, heldLoads):
			for j := first; j < i; j++ {
				lines[j] = load.ReplaceAllString(lines[j], "ld.relaxed.gpu.global.")
			}
			first = i
		}
	}
	return strings.Join(lines, "\n")
}
