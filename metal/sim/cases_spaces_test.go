package sim

// spacesCases are about address spaces.
var spacesCases = []mslCase{
	{"ptr-noas", 1, "inline float f(float* p) { return p[0]; }\n" + kernel("float a[2]={1,2}; o[i]=f(a);"), "address spaces: write device"},
	{"ref-noas", 2, kernel("float a=1; float& r=a; r=2; o[i]=a;"), "address spaces: write device"},
	{"ptrptr", 0, kernel("thread float* a=0; float** q=&a; o[i]=q==0;"), "address spaces: write device"},
	{"cast-as", 3, kernel("threadgroup float s[4]; device float* q=(device float*)s; o[i]=q[0];"), "mismatching address"},
	{"tg-prog", 4, "threadgroup float s[4];\n" + kernel("s[0]=1; o[i]=s[0];"), "variables at file scope"},
	{"dev-prog", 5, "device float g[4];\n" + kernel("g[0]=1; o[i]=g[0];"), "variables at file scope"},
	{"glob", 5, "float g = 1.0f;\n" + kernel("g=2; o[i]=g;"), "variables at file scope"},
	{"const-glob", 6, "const float G = 1.0f;\n" + kernel("o[i]=G;"), "variables at file scope"},
	{"constexpr-glob", 6, "constexpr int G = 4;\n" + kernel("o[i]=G;"), "variables at file scope"},
	{"constant-noinit", 7, "constant float T[4];\n" + kernel("o[i]=T[i&3];"), "must be initialized"},
	{"constant-write", 7, "constant int T[2]={1,2};\n" + kernel("T[0]=3; o[i]=T[0];"), "read-only variable"},
	{"tg-helper", 8, "inline float f(uint i) { threadgroup float s[32]; s[i]=1; return s[i]; }\n" + kernel("o[i]=f(i);"), "non-kernel function variable"},
	{"tg-init", 9, kernel("threadgroup float s = 1.0f; o[i]=s;"), ""},
	{"tg-block", 0, kernel("if (i<64) { threadgroup float s[4]; s[0]=1; o[i]=s[0]; }"), "outermost scope of a kernel"}, // unsure of Apple; clang wants the outermost scope
	{"local-device", 0, kernel("device float x; o[i]=x;"), "cannot be declared in global"},
	{"method-noas-dev", 11, "struct S { float v; float get() const { return v; } };\n" + kernelOf("device S* p [[buffer(1)]], device float* o [[buffer(0)]], uint i [[thread_index_in_threadgroup]]", "o[i]=p[i].get();"), "serves thread objects only"},
	{"static-local", 10, kernel("static int n = 0; n++; o[i]=n;"), "static local"},
	{"thread-auto-ref", 0, kernel("float a[4]={1,2,3,4}; thread auto& r=a[1]; o[i]=r;"), ""},
	{"tg-method", 0, "struct S { float v; float get() const threadgroup { return v; } };\n" + kernel("threadgroup S s; s.v=1; o[i]=s.get();"), ""},
	{"autoref", 0, kernel("float a[4]={1,2,3,4}; auto& r=a[1]; o[i]=r;"), "address spaces: write device"}, // unsure of Apple
	{"tmplref", 2, "template<class T> inline float f(T& x) { return x; }\n" + kernel("float a=1; o[i]=f(a);"), "address spaces: write device"},
	{"constref", 2, "inline float f(const float& x) { return x; }\n" + kernel("float a=1; o[i]=f(a);"), "address spaces: write device"},
	{"const-to-dev", 0, "inline float f(device const float* x) { return x[0]; }\n" + kernelOf("device float* o [[buffer(0)]], constant float* x [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "o[i]=f(x);"), "no matching function"},
	{"local-constant", 0, kernel("constant float T[2]={1,2}; o[i]=T[i&1];"), ""},
	{"vol", 0, kernel("volatile bool t=true; if(t) o[i]=1;"), ""},
	{"void-cast-bool", 0, kernel("device bool* b=(device bool*)o; o[i]=b[0];"), ""},
}
