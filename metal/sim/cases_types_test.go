package sim

// typesCases are about types and conversions.
var typesCases = []mslCase{
	{"double", 12, kernel("double x=1; o[i]=x;"), "write float"},
	{"longlong", 12, kernel("long long x=1; o[i]=x;"), "write long"},
	{"lit-ll", 13, kernel("o[i]=float(1ull);"), "write ulong"},
	{"bf-from-float", 14, kernel("bfloat b = 1.5f; o[i]=float(b);"), "no viable conversion"},
	{"bf-from-half", 15, kernel("half h=1.0h; bfloat b = h; o[i]=float(b);"), "no viable conversion"},
	{"half-from-bf", 15, kernel("bfloat b = bfloat(1.0f); half h = b; o[i]=h;"), "invokes a deleted function"},
	{"bf-ret", 16, "inline bfloat f(float x) { return x; }\n" + kernel("o[i]=float(f(1));"), "no viable conversion"},
	{"bf-store", 16, kernelOf("device float* o [[buffer(0)]], device bfloat* y [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "y[i]=o[i]*2.0f;"), "no viable overloaded"},
	{"bf-half-op", 17, kernel("bfloat b=bfloat(1.0f); half h=1.0h; o[i]=float(b*h);"), "is ambiguous"},
	{"bf-pluseq-float", 17, kernel("bfloat b=bfloat(1.0f); b += 2.0f; o[i]=float(b);"), "no viable overloaded"},
	{"bf-to-float", 0, kernel("bfloat b=bfloat(1.0f); float f=b; o[i]=f;"), ""},
	{"vec-int-float", 20, kernel("int4 a=int4(1); float4 f=a; o[i]=f.x;"), "cannot initialize a variable"},
	{"vec-cmp-int", 21, kernel("float4 a=float4(1),b=float4(2); int4 m=a<b; o[i]=m.x;"), "comparing vectors gives"},
	{"vec-ternary", 22, kernel("float4 a=float4(1,2,3,4),b=float4(2,2,2,2); float4 r=(a<b)?a:b; o[i]=r.x;"), "as the condition of ?:"},
	{"vec-swz-ocl", 24, kernel("float4 a=float4(1,2,3,4); o[i]=a.s0+a.hi.x;"), "is OpenCL: components"},
	{"vec-swz-addr", 25, kernel("float4 a=float4(1,2,3,4); thread float* p=&a.y; o[i]=*p;"), "address of vector element"},
	{"vec-lit-ocl", 23, kernel("float4 a=(float4)(1,2,3,4); o[i]=a.x;"), "by the comma operator"}, // Apple takes it with another meaning; forbidden
	{"float8", 26, kernel("float8 a=0; o[i]=a.s0;"), "its name is taken"},
	{"as-size", 28, kernel("o[i]=as_type<float>(ushort(1));"), "sizes of"},
	{"as-bool", 29, kernel("bool b=true; o[i]=as_type<uchar>(b);"), "takes no bool"},
	{"as-ptr", 29, kernel("ulong u=as_type<ulong>(o); o[i]=u;"), "takes no pointers"},
	{"lit-bf", 0, kernel("bfloat b=1.5bf; o[i]=float(b);"), ""},
	{"bf4", 0, kernel("bfloat4 b=bfloat4(1.0bf); o[i]=float(b.x);"), ""},
	{"selectb", 0, kernel("float4 a=float4(1,2,3,4); float4 r=select(a,a+1.0f,a<2.0f); o[i]=r.x;"), ""},
	{"vec-ternary-2", 22, kernel("float4 a=o[i],b=2.0f; a.y=3; float4 r=(a<b)?a:b; o[i]=r.x;"), "as the condition of ?:"},
	{"vec-swz-ocl-2", 24, kernel("float4 a=o[i],b=2.0f; a.y=3; o[i]=a.s0+a.hi.x;"), "is OpenCL: components"},
	{"vec-swz-addr-2", 25, kernel("float4 a=o[i],b=2.0f; a.y=3; thread float* p=&a.y; o[i]=*p;"), "address of vector element"},
	{"selectb-2", 0, kernel("float4 a=o[i],b=2.0f; a.y=3; float4 r=select(a,a+1.0f,a<b); o[i]=r.x;"), ""},
	{"selectscalar", 0, kernel("o[i]=select(1.0f,2.0f,o[i]<3.0f);"), ""},
	{"any", 0, kernel("float4 a=o[i],b=2.0f; a.y=3; if (any(a<b)) o[i]=1;"), ""},
	{"dlit", 0, kernel(`static_assert(sizeof(1.0)==4,"float literal"); o[i]=1;`), ""},
	{"dlit2", 19, kernel("o[i]=o[i]*0.1;"), ""},
	{"ctor4", 0, kernel("float4 a=float4(1,2,3,4); uint2 u=uint2(1,2); o[i]=a.x+u.x;"), ""},
	{"name-bfloat16", 27, "typedef bfloat bfloat16;\n" + kernel("o[i]=1;"), "its name is taken"},
	{"name-uint8", 0, "typedef unsigned char uint8;\n" + kernel("uint8 x=1; o[i]=x;"), "its name is taken"},
	{"tern-bf", 0, kernel("bfloat b=bfloat(1.0f); b = i>1 ? b : 0.0f; o[i]=b;"), "no viable overloaded"},
	{"bf-neg", 0, kernel("bfloat b=bfloat(1.0f); b = -b; o[i]=b;"), ""},
	{"bf-add", 0, kernel("bfloat b=bfloat(1.0f), c=bfloat(2.0f); bfloat d = b + c; o[i]=d;"), "rounded to bfloat"}, // Apple takes it; forbidden for its hidden rounding
	{"bf-zero", 0, kernel("bfloat b=0; o[i]=b;"), "no viable conversion"},                                          // unsure of Apple
	{"bf-product", 18, kernelOf("device float* o [[buffer(0)]], device const bfloat* x [[buffer(1)]], uint i [[thread_index_in_threadgroup]]", "bfloat a = x[i], b = x[i + 1]; float p = a * b; o[i] = p;"), "rounded to bfloat"}, // Apple takes it with another meaning; forbidden
	{"vec-hi", 24, kernel("float4 a = 1.0f; o[i] = a.hi.x;"), "is OpenCL: components"},
}
