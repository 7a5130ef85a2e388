package sim

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"regexp"
	"strconv"
)

var codeAddress = regexp.MustCompile(`\((/\S+\.so)\+0x([0-9a-f]+)\)`)

// NameLines adds source lines to a report of AddressSanitizer, which names code of kernels by file and address.
func NameLines(report string) string {
	return codeAddress.ReplaceAllStringFunc(report, func(s string) string {
		m := codeAddress.FindStringSubmatch(s)
		address, err := strconv.ParseUint(m[2], 16, 64)
		if err != nil {
			return s
		}
		if n := sourceLine(m[1], address); n > 0 {
			return fmt.Sprintf("%s line %d", s, n)
		}
		return s
	})
}

// sourceLine finds the line of MSL that a return address of a shared library belongs to, 0 if the library doesn't say.
// The header's functions carry no lines of their own, so what is inlined from there counts as its caller's line.
func sourceLine(path string, address uint64) int {
	f, err := elf.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return 0
	}
	reader := data.Reader()
	for {
		unit, err := reader.Next()
		if err != nil || unit == nil {
			return 0
		}
		lines, err := data.LineReader(unit)
		if err == nil && lines != nil {
			var entry dwarf.LineEntry
			if lines.SeekPC(address-1, &entry) == nil { // of the call, not of what follows it
				return entry.Line
			}
		}
		reader.SkipChildren()
	}
}
