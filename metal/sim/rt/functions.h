// MSL's math, common, integer and relational functions. Each is a set of overloads for exactly the types of MSL, so that
// max(x, 0) stays as ambiguous as it is there. half is computed in float and rounded, which is exact rounding for + - * /.
#pragma once

// Applies F to each component.
#define __SIM_EACH1(F, T, R) \
  inline R##2 F(T##2 a) { return (R##2)(F(a.x), F(a.y)); } \
  inline R##3 F(T##3 a) { return (R##3)(F(a.x), F(a.y), F(a.z)); } \
  inline R##4 F(T##4 a) { return (R##4)(F(a.x), F(a.y), F(a.z), F(a.w)); }
#define __SIM_EACH2(F, T) \
  inline T##2 F(T##2 a, T##2 b) { return (T##2)(F(a.x, b.x), F(a.y, b.y)); } \
  inline T##3 F(T##3 a, T##3 b) { return (T##3)(F(a.x, b.x), F(a.y, b.y), F(a.z, b.z)); } \
  inline T##4 F(T##4 a, T##4 b) { return (T##4)(F(a.x, b.x), F(a.y, b.y), F(a.z, b.z), F(a.w, b.w)); }
#define __SIM_EACH3(F, T) \
  inline T##2 F(T##2 a, T##2 b, T##2 c) { return (T##2)(F(a.x, b.x, c.x), F(a.y, b.y, c.y)); } \
  inline T##3 F(T##3 a, T##3 b, T##3 c) { return (T##3)(F(a.x, b.x, c.x), F(a.y, b.y, c.y), F(a.z, b.z, c.z)); } \
  inline T##4 F(T##4 a, T##4 b, T##4 c) { return (T##4)(F(a.x, b.x, c.x), F(a.y, b.y, c.y), F(a.z, b.z, c.z), F(a.w, b.w, c.w)); }

#define __SIM_FLOAT1(F, VALUE) \
  inline float F(float x) { return VALUE; } \
  __SIM_EACH1(F, float, float)
#define __SIM_FLOAT2(F, VALUE) \
  inline float F(float x, float y) { return VALUE; } \
  __SIM_EACH2(F, float)
#define __SIM_REAL1(F, VALUE) \
  __SIM_FLOAT1(F, VALUE) \
  inline half F(half x) { return (half)F((float)x); } \
  __SIM_EACH1(F, half, half)
#define __SIM_REAL2(F, VALUE) \
  __SIM_FLOAT2(F, VALUE) \
  inline half F(half x, half y) { return (half)F((float)x, (float)y); } \
  __SIM_EACH2(F, half)

namespace __sim {
inline float sinh(float x) {
  float a = __builtin_fabsf(x);
  if (a < 0.3f) { // the series: exp(x) - exp(-x) would lose bits
    float z = x * x;
    return fma(x * z, fma(z, fma(z, 1.98412698e-4f, 8.33333377e-3f), 0.166666672f), x);
  }
  float e = exp(0.5f * a); // halved, so that it overflows only where sinh does
  float v = 0.5f * e * e - 0.5f / e / e;
  return x < 0.0f ? -v : v;
}
inline float cosh(float x) {
  float e = exp(0.5f * __builtin_fabsf(x));
  return 0.5f * e * e + 0.5f / e / e;
}
// atan for 0 <= x <= 1.
inline float atan_unit(float x) {
  float base = 0.0f, r = x;
  if (x > 0.414213562f) { base = 0.785398163f; r = (x - 1.0f) / (x + 1.0f); }
  float z = r * r, p = -5.26315789e-2f;
  p = fma(p, z, 5.88235294e-2f);
  p = fma(p, z, -6.66666667e-2f);
  p = fma(p, z, 7.69230769e-2f);
  p = fma(p, z, -9.09090909e-2f);
  p = fma(p, z, 0.111111111f);
  p = fma(p, z, -0.142857143f);
  p = fma(p, z, 0.2f);
  p = fma(p, z, -0.333333333f);
  return base + fma(p * z, r, r);
}
inline float atan(float x) {
  float a = __builtin_fabsf(x);
  float v = a <= 1.0f ? atan_unit(a) : 1.57079633f - atan_unit(1.0f / a);
  return __builtin_copysignf(v, x);
}
inline float atan2(float y, float x) {
  if (x != x || y != y) return nan();
  float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y), v;
  if (ax == ay) v = ax == 0.0f ? 0.0f : 0.785398163f;
  else v = ay < ax ? atan_unit(ay / ax) : 1.57079633f - atan_unit(ax / ay);
  if (bits(x) >> 31) v = 3.14159265f - v;
  return __builtin_copysignf(v, y);
}
inline float asin(float x) { return atan2(x, __builtin_sqrtf((1.0f - x) * (1.0f + x))); }
inline float acos(float x) { return atan2(__builtin_sqrtf((1.0f - x) * (1.0f + x)), x); }
inline float asinh(float x) {
  float a = __builtin_fabsf(x);
  float v = a > 1e9f ? log(a) + 0.693147181f : a < 0.01f ? fma(a * a * a, -0.166666667f, a) : log(a + __builtin_sqrtf(fma(a, a, 1.0f)));
  return __builtin_copysignf(v, x);
}
inline float acosh(float x) { return x > 1e9f ? log(x) + 0.693147181f : log(x + __builtin_sqrtf((x - 1.0f) * (x + 1.0f))); }
inline float atanh(float x) {
  float a = __builtin_fabsf(x);
  float v = a < 0.01f ? fma(a * a * a, 0.333333333f, a) : 0.5f * log((1.0f + a) / (1.0f - a));
  return __builtin_copysignf(v, x);
}
inline float fmod(float x, float y) {
  float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
  if (!(a < infinity()) || y != y || b == 0.0f) return nan();
  while (a >= b) { // subtracts the largest power-of-two multiple of b: every step is exact
    float m = b;
    while (m <= 0.5f * a) m += m;
    a -= m;
  }
  return __builtin_copysignf(a, x);
}
inline float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f; }
inline float ldexp(float x, int n) {
  for (; n > 127; n -= 127) x *= 1.70141183e38f;
  for (; n < -100; n += 100) x *= 7.88860905e-31f;
  return x * from_bits((uint)(n + 127) << 23);
}
inline float frexp(float x, __private int* e) {
  *e = 0;
  if (x == 0.0f || !(__builtin_fabsf(x) < infinity())) return x;
  int shift = 0;
  if (__builtin_fabsf(x) < 1.17549435e-38f) { x *= 16777216.0f; shift = -24; }
  *e = (int)(bits(x) >> 23 & 255u) - 126 + shift;
  return from_bits((bits(x) & 0x807fffffu) | 0x3f000000u);
}
}

namespace metal {
__SIM_REAL1(exp, __sim::exp(x))
__SIM_REAL1(exp2, __sim::exp2(x))
__SIM_REAL1(exp10, __sim::exp10(x))
__SIM_REAL1(log, __sim::log(x))
__SIM_REAL1(log2, __sim::log2(x))
__SIM_REAL1(log10, __sim::log10(x))
__SIM_REAL1(sin, __sim::sin(x))
__SIM_REAL1(cos, __sim::cos(x))
__SIM_REAL1(tan, __sim::sin(x) / __sim::cos(x))
__SIM_REAL1(sinpi, __sim::sin((x - 2.0f * __builtin_floorf(0.5f * x)) * M_PI_F))
__SIM_REAL1(cospi, __sim::cos((x - 2.0f * __builtin_floorf(0.5f * x)) * M_PI_F))
__SIM_REAL1(sinh, __sim::sinh(x))
__SIM_REAL1(cosh, __sim::cosh(x))
__SIM_REAL1(tanh, __sim::tanh(x))
__SIM_REAL1(asin, __sim::asin(x))
__SIM_REAL1(acos, __sim::acos(x))
__SIM_REAL1(atan, __sim::atan(x))
__SIM_REAL1(asinh, __sim::asinh(x))
__SIM_REAL1(acosh, __sim::acosh(x))
__SIM_REAL1(atanh, __sim::atanh(x))
__SIM_REAL1(sqrt, __builtin_sqrtf(x))
__SIM_REAL1(rsqrt, __sim::rsqrt(x))
__SIM_REAL1(fabs, __builtin_fabsf(x))
__SIM_REAL1(floor, __builtin_floorf(x))
__SIM_REAL1(ceil, __builtin_ceilf(x))
__SIM_REAL1(trunc, __builtin_truncf(x))
__SIM_REAL1(rint, __builtin_rintf(x))
__SIM_REAL1(round, __builtin_truncf(x + __builtin_copysignf(0.49999997f, x)))
__SIM_REAL1(fract, __builtin_fminf(x - __builtin_floorf(x), 0.99999994f))
__SIM_REAL1(saturate, __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f))
__SIM_REAL1(sign, __sim::sign(x))
__SIM_REAL2(pow, __sim::pow(x, y))
__SIM_REAL2(powr, __sim::pow(x, y))
__SIM_REAL2(atan2, __sim::atan2(x, y))
__SIM_REAL2(fmod, __sim::fmod(x, y))
__SIM_REAL2(fmax, __builtin_fmaxf(x, y))
__SIM_REAL2(fmin, __builtin_fminf(x, y))
__SIM_REAL2(fdim, x > y ? x - y : x <= y ? 0.0f : __sim::nan())
__SIM_REAL2(copysign, __builtin_copysignf(x, y))
__SIM_REAL2(divide, x / y)
__SIM_REAL2(step, y < x ? 0.0f : 1.0f)

inline float fma(float a, float b, float c) { return __sim::fma(a, b, c); }
__SIM_EACH3(fma, float)
#if defined(__NVPTX__)
inline half2 fma(half2 a, half2 b, half2 c) {
  uint d;
  __asm__("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(__builtin_astype(a, uint)), "r"(__builtin_astype(b, uint)), "r"(__builtin_astype(c, uint)));
  return __builtin_astype(d, half2);
}
inline half fma(half a, half b, half c) { return fma((half2)(a), (half2)(b), (half2)(c)).x; }
inline half3 fma(half3 a, half3 b, half3 c) { return (half3)(fma(a.xy, b.xy, c.xy), fma(a.z, b.z, c.z)); }
inline half4 fma(half4 a, half4 b, half4 c) { return (half4)(fma(a.xy, b.xy, c.xy), fma(a.zw, b.zw, c.zw)); }
#else
inline half fma(half a, half b, half c) { return (half)__sim::fma((float)a, (float)b, (float)c); }
__SIM_EACH3(fma, half)
#endif
inline float ldexp(float x, int n) { return __sim::ldexp(x, n); }
inline int ilogb(float x) { int e; __sim::frexp(x, &e); return e - 1; }
inline float frexp(float x, thread int& e) { return __sim::frexp(x, &e); }
inline float modf(float x, thread float& whole) { whole = __builtin_truncf(x); return x - whole; }
inline float sincos(float x, thread float& c) { c = __sim::cos(x); return __sim::sin(x); }

#define __SIM_MINMAX(T, MIN, MAX) \
  inline T min(T a, T b) { return MIN; } \
  inline T max(T a, T b) { return MAX; } \
  __SIM_EACH2(min, T) \
  __SIM_EACH2(max, T) \
  inline T clamp(T x, T low, T high) { return min(max(x, low), high); } \
  __SIM_EACH3(clamp, T) \
  inline T##2 clamp(T##2 x, T low, T high) { return clamp(x, (T##2)low, (T##2)high); } \
  inline T##3 clamp(T##3 x, T low, T high) { return clamp(x, (T##3)low, (T##3)high); } \
  inline T##4 clamp(T##4 x, T low, T high) { return clamp(x, (T##4)low, (T##4)high); } \
  inline T max3(T a, T b, T c) { return max(a, max(b, c)); } \
  __SIM_EACH3(max3, T) \
  inline T min3(T a, T b, T c) { return min(a, min(b, c)); } \
  __SIM_EACH3(min3, T) \
  inline T median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); } \
  __SIM_EACH3(median3, T)
__SIM_MINMAX(float, __builtin_fminf(a, b), __builtin_fmaxf(a, b))
__SIM_MINMAX(half, (half)__builtin_fminf((float)a, (float)b), (half)__builtin_fmaxf((float)a, (float)b))
#define __SIM_INTMINMAX(T) __SIM_MINMAX(T, b < a ? b : a, a < b ? b : a)
__SIM_INTEGERS(__SIM_INTMINMAX)
#undef __SIM_INTMINMAX
#undef __SIM_MINMAX

inline float abs(float x) { return __builtin_fabsf(x); }
__SIM_EACH1(abs, float, float)
inline half abs(half x) { return fabs(x); }
__SIM_EACH1(abs, half, half)

#define __SIM_REAL(T) \
  inline T mix(T a, T b, T t) { return a + (b - a) * t; } \
  __SIM_EACH3(mix, T) \
  inline T##2 mix(T##2 a, T##2 b, T t) { return a + (b - a) * t; } \
  inline T##3 mix(T##3 a, T##3 b, T t) { return a + (b - a) * t; } \
  inline T##4 mix(T##4 a, T##4 b, T t) { return a + (b - a) * t; } \
  inline T smoothstep(T low, T high, T x) { T t = clamp((x - low) / (high - low), (T)0, (T)1); return t * t * ((T)3 - (T)2 * t); } \
  __SIM_EACH3(smoothstep, T) \
  inline T dot(T##2 a, T##2 b) { return a.x * b.x + a.y * b.y; } \
  inline T dot(T##3 a, T##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; } \
  inline T dot(T##4 a, T##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; } \
  inline T##3 cross(T##3 a, T##3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; } \
  inline T length_squared(T##2 a) { return dot(a, a); } \
  inline T length_squared(T##3 a) { return dot(a, a); } \
  inline T length_squared(T##4 a) { return dot(a, a); } \
  inline T length(T##2 a) { return sqrt(dot(a, a)); } \
  inline T length(T##3 a) { return sqrt(dot(a, a)); } \
  inline T length(T##4 a) { return sqrt(dot(a, a)); } \
  inline T distance(T##2 a, T##2 b) { return length(a - b); } \
  inline T distance(T##3 a, T##3 b) { return length(a - b); } \
  inline T distance(T##4 a, T##4 b) { return length(a - b); } \
  inline T##2 normalize(T##2 a) { return a * rsqrt(dot(a, a)); } \
  inline T##3 normalize(T##3 a) { return a * rsqrt(dot(a, a)); } \
  inline T##4 normalize(T##4 a) { return a * rsqrt(dot(a, a)); }
__SIM_REAL(float)
__SIM_REAL(half)
#undef __SIM_REAL

// Relational functions.
inline bool isnan(float x) { return x != x; }
inline bool isnan(half x) { return x != x; }
inline bool isnan(bfloat x) { return float(x) != float(x); }
inline bool isinf(float x) { return __builtin_fabsf(x) == INFINITY; }
inline bool isinf(half x) { return __builtin_fabsf((float)x) == INFINITY; }
inline bool isinf(bfloat x) { return __builtin_fabsf(float(x)) == INFINITY; }
inline bool isfinite(float x) { return __builtin_fabsf(x) < INFINITY; }
inline bool isfinite(half x) { return __builtin_fabsf((float)x) < INFINITY; }
inline bool isfinite(bfloat x) { return __builtin_fabsf(float(x)) < INFINITY; }
inline bool isnormal(float x) { return __builtin_fabsf(x) < INFINITY && __builtin_fabsf(x) >= FLT_MIN; }
inline bool signbit(float x) { return __sim::bits(x) >> 31; }
inline bool signbit(half x) { return __builtin_astype(x, ushort) >> 15; }
inline bool any(bool a) { return a; }
inline bool all(bool a) { return a; }
inline bool any(bool2 a) { return a.x || a.y; }
inline bool any(bool3 a) { return a.x || a.y || a.z; }
inline bool any(bool4 a) { return a.x || a.y || a.z || a.w; }
inline bool all(bool2 a) { return a.x && a.y; }
inline bool all(bool3 a) { return a.x && a.y && a.z; }
inline bool all(bool4 a) { return a.x && a.y && a.z && a.w; }

#define __SIM_SELECT(T) \
  inline T select(T a, T b, bool c) { return c ? b : a; } \
  inline T##2 select(T##2 a, T##2 b, bool2 c) { return (T##2)(c.x ? b.x : a.x, c.y ? b.y : a.y); } \
  inline T##3 select(T##3 a, T##3 b, bool3 c) { return (T##3)(c.x ? b.x : a.x, c.y ? b.y : a.y, c.z ? b.z : a.z); } \
  inline T##4 select(T##4 a, T##4 b, bool4 c) { return (T##4)(c.x ? b.x : a.x, c.y ? b.y : a.y, c.z ? b.z : a.z, c.w ? b.w : a.w); }
__SIM_TYPES(__SIM_SELECT)
#undef __SIM_SELECT
inline bfloat select(bfloat a, bfloat b, bool c) { return c ? b : a; }

// fast:: and precise:: exist for float only; here both are what the plain names are, but for fast::exp2, which prefill's
// attention is full of: the GPU's own instruction there, within 2 ulp, with denormals as zeros.
#define __SIM_BOTH(X) X(exp) X(exp10) X(log) X(log2) X(log10) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(asin) X(acos) \
  X(atan) X(asinh) X(acosh) X(atanh) X(sqrt) X(rsqrt) X(fabs) X(abs) X(floor) X(ceil) X(trunc) X(rint) X(round) X(fract) X(sinpi) X(cospi) X(saturate)
#define __SIM_NAMED(F) \
  inline float F(float x) { return metal::F(x); } \
  __SIM_EACH1(F, float, float)
#define __SIM_NAMED2(F) \
  inline float F(float x, float y) { return metal::F(x, y); } \
  __SIM_EACH2(F, float)
namespace precise {
__SIM_BOTH(__SIM_NAMED)
__SIM_NAMED(exp2)
__SIM_NAMED2(pow) __SIM_NAMED2(powr) __SIM_NAMED2(atan2) __SIM_NAMED2(fmod) __SIM_NAMED2(fmax) __SIM_NAMED2(fmin) __SIM_NAMED2(max)
__SIM_NAMED2(min) __SIM_NAMED2(divide)
}
namespace fast {
__SIM_BOTH(__SIM_NAMED)
#if defined(__NVPTX__)
inline float exp2(float x) {
  float y;
  __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__SIM_EACH1(exp2, float, float)
#else
__SIM_NAMED(exp2)
#endif
__SIM_NAMED2(pow) __SIM_NAMED2(powr) __SIM_NAMED2(atan2) __SIM_NAMED2(fmod) __SIM_NAMED2(fmax) __SIM_NAMED2(fmin) __SIM_NAMED2(max)
__SIM_NAMED2(min) __SIM_NAMED2(divide)
}

// Integer functions. U is T without a sign, W its width.
#define __SIM_INTEGER(T, U, W) \
  inline U absdiff(T a, T b) { return a > b ? (U)a - (U)b : (U)b - (U)a; } \
  inline T popcount(T x) { return (T)__builtin_popcountl((ulong)(U)x); } \
  inline T clz(T x) { return (U)x ? (T)(__builtin_clzl((ulong)(U)x) - (64 - W)) : (T)W; } \
  inline T ctz(T x) { return (U)x ? (T)__builtin_ctzl((ulong)(U)x) : (T)W; } \
  inline T rotate(T x, T n) { uint s = (uint)n & (W - 1u); return s ? (T)((U)((U)x << s) | (U)((U)x >> (W - s))) : x; } \
  inline T reverse_bits(T x) { U r = 0; for (int i = 0; i < W; ++i) r = (U)(r << 1 | ((U)x >> i & 1)); return (T)r; } \
  inline T hadd(T a, T b) { return (T)((a & b) + ((a ^ b) >> 1)); } \
  inline T rhadd(T a, T b) { return (T)((a | b) - ((a ^ b) >> 1)); } \
  inline T extract_bits(T x, uint offset, uint n) { return n == 0 ? (T)0 : (T)((T)((U)x << (W - n - offset)) >> (W - n)); } \
  inline T insert_bits(T x, T y, uint offset, uint n) { \
    U mask = n >= W ? (U)~(U)0 : (U)((((U)1 << n) - 1) << offset); \
    return (T)(((U)x & (U)~mask) | ((U)((U)y << offset) & mask)); \
  } \
  __SIM_EACH1(popcount, T, T) \
  __SIM_EACH1(clz, T, T) \
  __SIM_EACH1(ctz, T, T) \
  __SIM_EACH1(reverse_bits, T, T) \
  __SIM_EACH2(rotate, T)
__SIM_INTEGER(int, uint, 32)
__SIM_INTEGER(uint, uint, 32)
__SIM_INTEGER(short, ushort, 16)
__SIM_INTEGER(ushort, ushort, 16)
__SIM_INTEGER(char, uchar, 8)
__SIM_INTEGER(uchar, uchar, 8)
__SIM_INTEGER(long, ulong, 64)
__SIM_INTEGER(ulong, ulong, 64)
#undef __SIM_INTEGER

#define __SIM_SIGNED(T, U) \
  inline U abs(T x) { return x < 0 ? (U)0 - (U)x : (U)x; } \
  __SIM_EACH1(abs, T, U)
__SIM_SIGNED(int, uint)
__SIM_SIGNED(short, ushort)
__SIM_SIGNED(char, uchar)
__SIM_SIGNED(long, ulong)
#undef __SIM_SIGNED
inline uint abs(uint x) { return x; }
inline ushort abs(ushort x) { return x; }
inline uchar abs(uchar x) { return x; }
inline ulong abs(ulong x) { return x; }

// High halves of products, and saturating sums, by a type W of twice the width.
#define __SIM_NARROW(T, W, BITS, LOW, HIGH) \
  inline T mulhi(T a, T b) { return (T)((W)a * (W)b >> BITS); } \
  inline T madhi(T a, T b, T c) { return (T)(mulhi(a, b) + c); } \
  inline T addsat(T a, T b) { W s = (W)a + (W)b; return (T)(s < (W)LOW ? (W)LOW : s > (W)HIGH ? (W)HIGH : s); } \
  inline T subsat(T a, T b) { W s = (W)a - (W)b; return (T)(s < (W)LOW ? (W)LOW : s > (W)HIGH ? (W)HIGH : s); } \
  __SIM_EACH2(mulhi, T) \
  __SIM_EACH2(addsat, T) \
  __SIM_EACH2(subsat, T)
__SIM_NARROW(int, long, 32, INT_MIN, INT_MAX)
__SIM_NARROW(uint, long, 32, 0, UINT_MAX) // the product may wrap: its upper half, taken as a uint, is right
__SIM_NARROW(short, int, 16, -32768, 32767)
__SIM_NARROW(ushort, int, 16, 0, 65535)
__SIM_NARROW(char, int, 8, -128, 127)
__SIM_NARROW(uchar, int, 8, 0, 255)
#undef __SIM_NARROW
inline int mul24(int a, int b) { return a * b; }
inline uint mul24(uint a, uint b) { return a * b; }
inline int mad24(int a, int b, int c) { return a * b + c; }
inline uint mad24(uint a, uint b, uint c) { return a * b + c; }

template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static float max() { return FLT_MAX; }
  static float lowest() { return -FLT_MAX; }
  static float min() { return FLT_MIN; }
  static float epsilon() { return FLT_EPSILON; }
  static float infinity() { return INFINITY; }
  static float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<half> {
  static half max() { return 65504.0h; }
  static half lowest() { return -65504.0h; }
  static half infinity() { return (half)INFINITY; }
};
template <> struct numeric_limits<int> {
  static int max() { return INT_MAX; }
  static int min() { return INT_MIN; }
};
template <> struct numeric_limits<uint> {
  static uint max() { return UINT_MAX; }
  static uint min() { return 0; }
};
}
