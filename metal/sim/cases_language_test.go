package sim

// languageCases are about the language and function constants.
var languageCases = []mslCase{
	{"fc-array", 38, "constant uint N [[function_constant(0)]];\n" + kernel("threadgroup float s[N]; s[0]=1; o[i]=s[0];"), "not a constant expression"},
	{"fc-tmpl", 38, `constant uint N [[function_constant(0)]];
template<uint M> inline float f() { return M; }
` + kernel("o[i]=f<N>();"), "no matching function"},
	{"fc-ifconstexpr", 38, "constant bool B [[function_constant(0)]];\n" + kernel("if constexpr (B) o[i]=1; else o[i]=2;"), "not a constant expression"},
	{"fc-init", 39, "constant uint N [[function_constant(0)]] = 4;\n" + kernel("o[i]=N;"), "only the host gives it one"},
	{"fc-dup", 40, `constant uint N [[function_constant(0)]];
constant uint M [[function_constant(0)]];
` + kernel("o[i]=N+M;"), "both have id 0"},
	{"fc-derived", 41, `constant uint N [[function_constant(0)]];
constant uint N2 = N * 2;
` + kernel("o[i]=N2;"), ""},
	{"goto", 42, kernel("goto e; e: o[i]=1;"), "use loops and flags"},
	{"noexcept", 42, "inline float f() noexcept { return 1; }\n" + kernel("o[i]=f();"), "leave it out"},
	{"asm", 42, kernel(`asm volatile("nop"); o[i]=1;`), "use a function of metal_stdlib"},
	{"new", 43, kernel("thread int* p=new int(1); o[i]=*p;"), "there is no heap"},
	{"throw", 43, kernel("if(i>3) throw 1; o[i]=1;"), "write a flag"},
	{"virtual", 44, "struct B { virtual float f() { return 1; } };\n" + kernel("B b; o[i]=b.f();"), "use a template or a switch"},
	{"derived", 44, "struct B { float f; }; struct D : B { float g; };\n" + kernel("D d; d.f=1; d.g=2; o[i]=d.f+d.g;"), "make the base a member"},
	{"lambda", 45, kernel("auto f=[](float x){ return x*2; }; o[i]=f(1.0f);"), "write an inline function"},
	{"ctad", 46, "template<class T> struct P { T a; P(T x):a(x){} };\n" + kernel("P p(1.0f); o[i]=p.a;"), "argument deduction is incompatible"},
	{"bind", 0, "struct P { float a,b; };\n" + kernel("P p={1,2}; auto [x,y]=p; o[i]=x+y;"), "name the members"},
	{"ifconstexpr", 47, "template<int N> inline float f() { if constexpr (N>1) return 1; else return 2; }\n" + kernel("o[i]=f<2>();"), ""},
	{"threadlocal", 43, kernel("thread_local int x=0; o[i]=x;"), "locals are a thread"},
	{"kwname", 48, kernel("float vertex=1; o[i]=vertex;"), "keyword of MSL: choose"},
	{"kwname2", 48, kernel("float fragment=1; float ray_data=2; o[i]=fragment+ray_data;"), "keyword of MSL: choose"},
	{"bitfield", 0, "struct S { uint a:4; uint b:28; };\n" + kernel("S s; s.a=1; s.b=2; o[i]=s.a+s.b;"), "bit-fields are not supported"}, // Apple takes them; clang does not
	{"union", 0, "union U { float f; uint u; };\n" + kernel("U u; u.f=1; o[i]=u.u;"), ""},
	{"recursion", 0, `inline float f(int n);
float f(int n) { return n<1 ? 1.0f : f(n-1); }
` + kernel("o[i]=f(3);"), ""},
	{"fnptr", 0, "inline float f(float x) { return x; }\n" + kernel("float (*p)(float)=f; o[i]=p(1);"), ""},
	{"kw-texture", 0, kernel("int sampler=1; o[i]=sampler;"), "use buffers, or another name"},
	{"var-int", 0, "inline void f(int n, ...) { }\n" + kernel("f(1,2); o[i]=1;"), "overload it"},
	{"inc", 60, `#include "common.h"
` + kernel("o[i]=1;"), "no include path"},
	{"std", 60, "#include <cmath>\n" + kernel("o[i]=std::exp(o[i]);"), "the C++ library does not"},
	{"is_fc", 0, `constant bool B [[function_constant(0)]];
constant bool BD = is_function_constant_defined(B);
` + kernel("o[i]=BD;"), ""},
}
