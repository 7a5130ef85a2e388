package msl

import "strings"

// words that no MSL 3.1 program may hold, each with what to do instead.
var refused = map[string]string{
	"double":       "there is no double: write float",
	"goto":         "goto doesn't exist in MSL: use loops and flags",
	"asm":          "assembly doesn't exist in MSL: use a function of metal_stdlib",
	"__asm":        "assembly doesn't exist in MSL: use a function of metal_stdlib",
	"__asm__":      "assembly doesn't exist in MSL: use a function of metal_stdlib",
	"noexcept":     "noexcept doesn't exist in MSL: leave it out",
	"new":          "there is no heap: use an array",
	"delete":       "there is no heap, and no deleted functions: leave it out",
	"throw":        "exceptions don't exist in MSL: write a flag to a buffer",
	"try":          "exceptions don't exist in MSL: write a flag to a buffer",
	"catch":        "exceptions don't exist in MSL: write a flag to a buffer",
	"dynamic_cast": "run-time types don't exist in MSL: use a tag",
	"typeid":       "run-time types don't exist in MSL: use a tag",
	"virtual":      "virtual functions don't exist in MSL: use a template or a switch",
	"thread_local": "thread_local doesn't exist in MSL: locals are a thread's own already",
	"register":     "register doesn't exist in MSL: leave it out",
	"restrict":     "restrict is no keyword of MSL: write __restrict, or leave it out, buffers never overlap",
	"sampler":      "textures and samplers are not in the simulator, and the name is taken: use buffers, or another name",
	"llong":        "there are no 128-bit integers and the name is taken: write long",
	"ullong":       "there are no 128-bit integers and the name is taken: write ulong",
	"printf":       "printf doesn't exist in MSL: write to a buffer",
}

// keywords of MSL, or of later versions, which OpenCL leaves to programs.
var keywords = []string{"vertex", "fragment", "threadgroup_imageblock", "ray_data", "object_data"}

// tooWide are scalars whose vectors end at four components; the names of wider ones are taken all the same.
var tooWide = []string{"float", "half", "bfloat", "int", "uint", "short", "ushort", "char", "uchar", "long", "ulong", "bool", "double"}

func init() {
	for _, k := range keywords {
		refused[k] = k + " is a keyword of MSL: choose another name"
	}
	for _, t := range tooWide {
		for _, n := range []string{"8", "16"} {
			refused[t+n] = "type " + t + n + " does not exist and its name is taken: vectors have 2 to 4 components; integers of fixed size are called uint8_t and so on"
		}
	}
	for _, k := range []string{"__global", "__local", "__private", "__constant", "__generic", "__kernel"} {
		refused[k] = k + " is OpenCL: write device, threadgroup, thread, constant or kernel"
	}
}

// refuseWords refuses identifiers by name.
func refuseWords(s stream) error {
	for _, t := range s {
		if t.kind != word {
			continue
		}
		if reason, ok := refused[t.text]; ok {
			return refuse(t.line, "%s: %s", t.text, reason)
		}
		for _, prefix := range []string{"__builtin_", "__nvvm_", "__sim", "__opencl", "__spirv"} {
			if strings.HasPrefix(t.text, prefix) {
				return refuse(t.line, "%s is the simulator's compiler's own: use what metal_stdlib has", t.text)
			}
		}
	}
	return nil
}

func refuseLongLong(s stream) error {
	for i := range s {
		if s.is(i, "long") && s.in(i+1, "long", "double") {
			return refuse(s[i].line, "long %s: write long, which has 64 bits, or float", s[i+1].text)
		}
	}
	return nil
}

// refuseLiterals refuses suffixes that MSL doesn't have.
func refuseLiterals(s stream) error {
	for _, t := range s {
		if t.kind == number && strings.Contains(strings.ToLower(t.text), "ll") {
			return refuse(t.line, "%s: there is no long long, write ulong(%s)", t.text, strings.TrimRight(t.text, "uUlL"))
		}
	}
	return nil
}

// refuseStructuredBindings refuses auto [a, b] = ..., which is C++17.
func refuseStructuredBindings(s stream) error {
	for i := range s {
		if s.is(i, "auto") && (s.is(i+1, "[") || s.in(i+1, "&", "&&") && s.is(i+2, "[")) {
			return refuse(s[i].line, "structured bindings come with MSL 4.0: name the members")
		}
	}
	return nil
}

// refuseLambdas refuses [](...){...}: a [ where an operand starts.
func refuseLambdas(s stream) error {
	for i := range s {
		if !s.is(i, "[") || s.is(i+1, "[") || s.is(i-1, "[") {
			continue
		}
		if s.in(i-1, "=", "(", ",", "return", "{", ";", "}", "?", ":", "&&", "||") {
			return refuse(s[i].line, "lambdas come with MSL 3.2: write an inline function")
		}
	}
	return nil
}

// refuseThreadgroupBool refuses bool in threadgroup memory, on which Apple's compiler is known to crash.
func refuseThreadgroupBool(s stream) error {
	for i := range s {
		if s.is(i, "threadgroup") && (s.is(i+1, "bool") || s.is(i+1, "const") && s.is(i+2, "bool")) {
			return refuse(s[i].line, "threadgroup bool makes Apple's compiler crash: use ushort or uint")
		}
	}
	return nil
}

// refuseMemoryOrders refuses atomic operations whose order is not the literal memory_order_relaxed.
func refuseMemoryOrders(s stream) error {
	for i := range s {
		t := s[i]
		if t.kind != word || !strings.HasPrefix(t.text, "atomic_") || !strings.HasSuffix(t.text, "_explicit") || !s.is(i+1, "(") {
			continue
		}
		close := s[i+1].match
		if close < 0 {
			continue
		}
		last := close - 1
		for last > i+1 && !s.is(last, ",") {
			last--
		}
		order := stream(s[last+1 : close])
		if !order.has("memory_order_relaxed") || len(order) != 1 && !(len(order) == 3 && order.is(0, "metal")) {
			return refuse(t.line, "%s: the memory order must be the word memory_order_relaxed itself, the only one there is", t.text)
		}
	}
	return nil
}
