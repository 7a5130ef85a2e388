package sim

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	functionLocal = regexp.MustCompile(`^  (%\S+) = alloca `)
	debugLocation = regexp.MustCompile(`, !dbg !\d+`)
	accessLine    = regexp.MustCompile(`^  (?:%\S+ = )?(?:tail )?(load|store|atomicrmw|cmpxchg|call void @llvm\.mem\w+)\b[. ](.*)`)
)

// instrument puts a call in front of every access to memory in LLVM code: sim_load, sim_store and sim_atomic of trace.c.
func instrument(code string) string {
	var out strings.Builder
	locals := map[string]bool{}
	for _, line := range strings.Split(code, "\n") {
		if strings.HasPrefix(line, "define ") {
			clear(locals)
		}
		if m := functionLocal.FindStringSubmatch(line); m != nil {
			locals[m[1]] = true
		}
		if m := accessLine.FindStringSubmatch(line); m != nil {
			location := debugLocation.FindString(line)
			for _, a := range accesses(m[1], m[2]) {
				if !locals[a.pointer] {
					fmt.Fprintf(&out, "  call void @%s(ptr %s, i64 %s, i32 %s)%s\n", a.function, a.pointer, a.size, a.last, location)
				}
			}
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	out.WriteString("declare void @sim_load(ptr, i64, i32)\ndeclare void @sim_store(ptr, i64, i32)\ndeclare void @sim_atomic(ptr, i64, i32)\n")
	return out.String()
}

// access is a call to put in: last is the alignment, or of an atomic the kind of access (metal.Access).
type access struct{ function, pointer, size, last string }

// accesses reads an instruction, given its name and what follows.
func accesses(name, rest string) []access {
	rest = strings.TrimPrefix(rest, "volatile ")
	atomic := strings.HasPrefix(rest, "atomic ")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "atomic "), "volatile ")
	switch {
	case name == "load" || name == "store":
		parts := topLevel(rest)
		kind, function, what := parts[0], "sim_load", "1"
		if name == "store" {
			kind, function, what = typeOf(parts[0]), "sim_store", "2"
		}
		if atomic {
			pointer := parts[1][len("ptr "):strings.LastIndex(parts[1], " ")] // "ptr %p monotonic"
			return []access{{"sim_atomic", pointer, sizeOf(kind), what}}
		}
		return []access{{function, strings.TrimPrefix(parts[1], "ptr "), sizeOf(kind), alignment(parts)}}
	case name == "atomicrmw" || name == "cmpxchg": // "add ptr %p, i32 %v monotonic, align 4"
		parts := topLevel(rest)
		return []access{{"sim_atomic", parts[0][strings.Index(parts[0], "ptr ")+4:], sizeOf(typeOf(parts[1])), "3"}}
	}
	open := strings.Index(rest, "(")
	if open < 0 {
		return nil
	}
	parts := topLevel(rest[open+1:])
	length := operand(parts[2])
	list := []access{{"sim_store", operand(parts[0]), length, "1"}}
	if !strings.Contains(name, "memset") {
		list = append(list, access{"sim_load", operand(parts[1]), length, "1"})
	}
	return list
}

// topLevel splits at the commas outside brackets, up to an unmatched closing one.
func topLevel(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[', '{', '<':
			depth++
		case ')', ']', '}', '>':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
		if depth < 0 {
			return append(parts, strings.TrimSpace(s[start:i]))
		}
	}
	return append(parts, strings.TrimSpace(s[start:]))
}

// typeOf is the type in front of a value.
func typeOf(s string) string {
	depth := 0
	for i, c := range s {
		switch c {
		case '(', '[', '{', '<':
			depth++
		case ')', ']', '}', '>':
			depth--
		case ' ':
			if depth == 0 {
				return s[:i]
			}
		}
	}
	return s
}

// sizeOf is a constant expression of LLVM.
func sizeOf(kind string) string {
	return "ptrtoint (ptr getelementptr (" + kind + ", ptr null, i32 1) to i64)"
}

func alignment(parts []string) string {
	for _, p := range parts {
		if n, found := strings.CutPrefix(p, "align "); found {
			return n
		}
	}
	return "1"
}

// operand is the value at the end of a call's argument, after type and attributes.
func operand(argument string) string {
	if i := strings.Index(argument, "getelementptr"); i >= 0 {
		return argument[i:]
	}
	return argument[strings.LastIndex(argument, " ")+1:]
}
