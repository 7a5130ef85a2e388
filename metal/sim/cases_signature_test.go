package sim

// signatureCases are about kernels' signatures.
var signatureCases = []mslCase{
	{"restrict", 30, kernelOf("device float* restrict o [[buffer(0)]], device const float* restrict x [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=x[i];"), "write __restrict"},
	{"arg-byval", 31, kernelOf("device float* o [[buffer(0)]], float s [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=s;"), "is passed by value: write constant"},
	{"arg-dup", 32, kernelOf("device float* o [[buffer(0)]], device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]", "o[i]=x[i];"), "both have [[buffer(0)]]"},
	{"arg-31", 32, kernelOf("device float* o [[buffer(31)]], uint i [[thread_index_in_threadgroup]]", "o[i]=1;"), "indices go from 0 to 30"},
	{"attr-int", 33, kernelOf("device float* o [[buffer(0)]], int i [[thread_index_in_threadgroup]]", "o[i]=1;"), "the type must be uint or ushort"},
	{"attr-ulong", 33, kernelOf("device float* o [[buffer(0)]], ulong i [[thread_index_in_threadgroup]]", "o[i]=1;"), "the type must be uint or ushort"},
	{"attr-vec", 33, kernelOf("device float* o [[buffer(0)]], uint3 i [[thread_index_in_simdgroup]]", "o[i.x]=1;"), "the type must be uint or ushort"},
	{"attr-mixdim", 34, kernelOf("device float* o [[buffer(0)]], uint3 g [[threadgroup_position_in_grid]], uint2 t [[threads_per_threadgroup]]", "o[t.x]=g.x;"), "all positions and sizes of a kernel have as many"},
	{"attr-mixlane", 35, kernelOf("device float* o [[buffer(0)]], uint g [[simdgroup_index_in_threadgroup]], ushort l [[thread_index_in_simdgroup]]", "o[l]=g;"), "all simdgroup values of a kernel have one type"},
	{"ret-int", 36, "kernel int k(device float* o [[buffer(0)]]) { o[0]=1; return 0; }\n", "returns a value"},
	{"kcall", 37, `kernel void a(device float* o [[buffer(0)]]) { o[0]=1; }
kernel void b(device float* o [[buffer(0)]]) { a(o); }
`, "is a kernel and can't be called"},
	{"koverload", 36, `kernel void a(device float* o [[buffer(0)]]) { o[0]=1; }
kernel void a(device int* o [[buffer(0)]]) { o[0]=1; }
`, "kernels can't be overloaded"},
	{"kmember", 36, "struct S { kernel void a(device float* o [[buffer(0)]]) { o[0]=1; } };\n", "kernels are free functions"},
	{"main", 36, "inline int main() { return 0; }\n" + kernel("o[i]=1;"), "can't be called main"},
	{"tg-arg", 0, kernelOf("device float* o [[buffer(0)]], threadgroup float* s [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]", "s[i]=1; o[i]=s[i];"), ""},
	{"dev-ref", 0, "struct S { float a; };\n" + kernelOf("device float* o [[buffer(0)]], device S& p [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=p.a;"), ""},
	{"uint2-attr", 0, kernelOf("device float* o [[buffer(0)]], uint2 i [[threadgroup_position_in_grid]]", "o[i.x]=1;"), ""},
	{"packed", 0, "struct S { packed_float3 a; float b; };\n" + kernelOf("device float* o [[buffer(0)]], constant S& p [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=p.b;"), ""},
	{"constsize_t", 0, kernelOf("device float* o [[buffer(0)]], constant size_t& n [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=n;"), ""},
	{"hostname", 0, `template<typename T> kernel void kk(device T* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i]=T(1); }
template [[host_name("kk_f")]] kernel void kk<float>(device float*, uint);
`, ""},
	{"kernattr", 0, "[[kernel]] void k(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i]=1; }\n", ""},
	{"maxthreads", 0, "[[max_total_threads_per_threadgroup(256)]] kernel void k(device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { o[i]=1; }\n", ""},
	{"main-2", 36, "int main() { return 0; }\n" + kernel("o[i]=1;"), "can't be called main"},
	{"noindex", 0, kernelOf("device float* o, uint i [[thread_index_in_threadgroup]]", "o[i]=1;"), "write [[buffer(n)]]"}, // Apple counts for itself; ours say the index
	{"fc-opt-arg", 0, "constant bool B [[function_constant(0)]];\n" + kernelOf("device float* o [[buffer(0)]], device float* x [[buffer(1), function_constant(B)]], uint i [[thread_index_in_threadgroup]]", "o[i]=B?x[i]:0;"), ""},
	{"attr-mixdim-2", 34, kernelOf("device float* o [[buffer(0)]], uint3 g [[threadgroup_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]", "o[t.x] = g.x;"), "all positions and sizes of a kernel have as many"},
}
