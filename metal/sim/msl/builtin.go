package msl

import (
	"slices"
	"strings"
)

// builtins are the attributes of what each thread is told, with the most components that the type may have.
var builtins = map[string]int{
	"thread_index_in_threadgroup":         1,
	"thread_index_in_simdgroup":           1,
	"simdgroup_index_in_threadgroup":      1,
	"simdgroups_per_threadgroup":          1,
	"threads_per_simdgroup":               1,
	"dispatch_simdgroups_per_threadgroup": 1,
	"thread_index_in_quadgroup":           1,
	"quadgroup_index_in_threadgroup":      1,
	"quadgroups_per_threadgroup":          1,
	"thread_position_in_grid":             3,
	"threads_per_grid":                    3,
	"thread_position_in_threadgroup":      3,
	"threads_per_threadgroup":             3,
	"dispatch_threads_per_threadgroup":    3,
	"threadgroup_position_in_grid":        3,
	"threadgroups_per_grid":               3,
}

// pairs are a position and the extent that bounds it; they have one type.
var pairs = [][2]string{
	{"thread_position_in_grid", "threads_per_grid"},
	{"thread_position_in_threadgroup", "threads_per_threadgroup"},
	{"threadgroup_position_in_grid", "threadgroups_per_grid"},
}

// builtinType returns the scalar type and the width of an attribute's type; width 0 if no attribute may have it.
func builtinType(p *param) (scalar string, width int) {
	var kept []string
	for _, t := range p.tokens {
		if t.text != "const" {
			kept = append(kept, t.text)
		}
	}
	if len(kept) != 1 {
		return "", 0
	}
	for _, scalar := range []string{"ushort", "uint"} {
		if rest, ok := strings.CutPrefix(kept[0], scalar); ok {
			return scalar, slices.Index([]string{"-", "", "2", "3"}, rest)
		}
	}
	return "", 0
}

func builtinParam(k *Kernel, p *param, a attribute) error {
	most := builtins[a.name]
	_, width := builtinType(p)
	switch {
	case width >= 1 && width <= most:
		return nil
	case most == 1:
		return refuse(p.line, "%s %s [[%s]] of kernel %s: the type must be uint or ushort", join(p.tokens), p.name, a.name, k.Name)
	}
	return refuse(p.line, "%s %s [[%s]] of kernel %s: the type must be uint or ushort with 1 to 3 components", join(p.tokens), p.name, a.name, k.Name)
}

// checkBuiltins refuses attributes whose types don't go together.
func checkBuiltins(k *Kernel, params []param) error {
	seen := map[string]*param{}
	var vector, lane *param
	for i := range params {
		p := &params[i]
		for _, a := range p.attributes {
			most := builtins[a.name]
			if most == 0 {
				continue
			}
			if seen[a.name] != nil {
				return refuse(p.line, "kernel %s asks twice for [[%s]]", k.Name, a.name)
			}
			seen[a.name] = p
			first := &vector
			if most == 1 {
				first = &lane
				if !strings.Contains(a.name, "simdgroup") && !strings.Contains(a.name, "quadgroup") {
					continue
				}
			}
			if err := together(k, first, p, most); err != nil {
				return err
			}
		}
	}
	for _, pair := range pairs {
		a, b := seen[pair[0]], seen[pair[1]]
		if a != nil && b != nil {
			as, aw := builtinType(a)
			if bs, bw := builtinType(b); as != bs || aw != bw {
				return refuse(b.line, "kernel %s: %s and %s must have one type", k.Name, a.name, b.name)
			}
		}
	}
	return nil
}

// together compares p with the first of its class: vectors agree in width, simdgroup scalars in type.
func together(k *Kernel, first **param, p *param, most int) error {
	if *first == nil {
		*first = p
		return nil
	}
	s, w := builtinType(*first)
	t, v := builtinType(p)
	if most > 1 && w != v {
		return refuse(p.line, "kernel %s: %s has %d components and %s has %d: all positions and sizes of a kernel have as many", k.Name, (*first).name, w, p.name, v)
	}
	if most == 1 && s != t {
		return refuse(p.line, "kernel %s: %s is %s and %s is %s: all simdgroup values of a kernel have one type", k.Name, (*first).name, s, p.name, t)
	}
	return nil
}
