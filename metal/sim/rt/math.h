// Math functions in float, within 2 ulp, for targets without a math library. Each is plain arithmetic and fma, so that
// every target gives the same bits. Needs: uint, int, ulong; __builtin_fmaf, rintf, fabsf, sqrtf.
#pragma once

namespace __sim {

inline uint bits(float x) { return __builtin_astype(x, uint); }
inline float from_bits(uint u) { return __builtin_astype(u, float); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float nan() { return from_bits(0x7fc00000u); }
inline float infinity() { return from_bits(0x7f800000u); }

// x * 2^n in two steps, so that a denormal result is rounded once; |n| <= 254.
inline float scale(float x, int n) {
  int part = n / 2;
  return x * from_bits((uint)(part + 127) << 23) * from_bits((uint)(n - part + 127) << 23);
}

// e^(r + low) for |r| <= 0.35 and a tiny low: the series up to r^7.
inline float exp_small(float r, float low) {
  float p = 1.98412701e-4f;
  p = fma(p, r, 1.38888892e-3f);
  p = fma(p, r, 8.33333377e-3f);
  p = fma(p, r, 4.16666679e-2f);
  p = fma(p, r, 0.166666672f);
  p = fma(p, r, 0.5f);
  return 1.0f + (r + fma(p * r, r, low));
}

inline float exp(float x) {
  if (x != x) return x;
  if (x > 88.8f) return infinity();
  if (x < -104.0f) return 0.0f;
  float n = __builtin_rintf(x * 1.44269502f);
  float a = fma(n, -0.693145752f, x); // ln 2 in 16 bits: exact
  float r = fma(n, -1.42860677e-6f, a);
  return scale(exp_small(r, fma(n, -1.42860677e-6f, a - r)), (int)n);
}

inline float exp2(float x) {
  if (x != x) return x;
  if (x >= 128.0f) return infinity();
  if (x < -150.0f) return 0.0f;
  float n = __builtin_rintf(x), f = x - n;
  float r = f * 0.693147182f;
  float low = fma(f, 0.693147182f, -r) + f * -1.90465421e-9f; // ln 2 is 1.9e-9 under its float
  return scale(exp_small(r, low), (int)n);
}

inline float exp10(float x) {
  if (x != x) return x;
  if (x > 38.6f) return infinity();
  if (x < -45.5f) return 0.0f;
  float n = __builtin_rintf(x * 3.32192802f);
  float r = fma(n, -0.301025391f, x); // log10 2 in 13 bits: exact
  r = fma(n, -4.60503907e-6f, r);
  float t = r * 2.30258512f;
  float low = fma(r, 2.30258512f, -t) + r * -3.19754356e-8f;
  return scale(exp_small(t, low), (int)n);
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive finite x; denormals too.
inline float split(float x, __private int* e) {
  int shift = 0;
  if (x < 1.17549435e-38f) { x *= 16777216.0f; shift = -24; }
  uint u = bits(x) + (0x3f800000u - 0x3f3504f3u);
  *e = (int)(u >> 23) - 127 + shift;
  return from_bits((u & 0x007fffffu) + 0x3f3504f3u);
}

// What log gives for x that has no logarithm, or an infinite one: true when *y holds it.
inline bool log_special(float x, __private float* y) {
  if (x != x || x == infinity()) { *y = x; return true; }
  if (x == 0.0f) { *y = -infinity(); return true; }
  if (x < 0.0f) { *y = nan(); return true; }
  return false;
}

// log(1 + f) = f - square + low, with square = f*f/2, for 1 + f in [sqrt(1/2), sqrt(2)): by s = f/(2+f) and atanh's series.
inline float log_tail(float f, float square) {
  float s = f / (2.0f + f), z = s * s;
  float p = 0.153846160f;
  p = fma(p, z, 0.181818187f);
  p = fma(p, z, 0.222222224f);
  p = fma(p, z, 0.285714298f);
  p = fma(p, z, 0.400000006f);
  p = fma(p, z, 0.666666687f);
  return s * fma(p, z, square);
}

inline float log(float x) {
  float y;
  if (log_special(x, &y)) return y;
  int e;
  float f = split(x, &e) - 1.0f, square = 0.5f * f * f, n = (float)e;
  float tail = log_tail(f, square) + n * -1.90465421e-9f;
  float high = n * 0.693147182f, low = fma(n, 0.693147182f, -high); // n * ln 2 = high + low
  return high + (f - (square - (tail + low)));
}

// log(x) * factor, factor = high + low, plus e * unit: log2 (unit 1) and log10.
inline float log_scaled(float x, float high, float low, float unit, float unit_low) {
  float y;
  if (log_special(x, &y)) return y;
  int e;
  float f = split(x, &e) - 1.0f, square = 0.5f * f * f, n = (float)e;
  float rest = log_tail(f, square) - square; // log(1 + f) = f + rest
  float sum = f + rest, error = rest - (sum - f);
  float product = sum * high;
  float tail = fma(sum, high, -product) + fma(error, high, sum * low);
  float whole = n * unit, whole_low = fma(n, unit, -whole) + n * unit_low;
  float result = whole + product;
  float lost = n == 0.0f ? 0.0f : product - (result - whole);
  return result + (lost + tail + whole_low);
}

inline float log2(float x) { return log_scaled(x, 1.44269502f, 1.92596303e-8f, 1.0f, 0.0f); }
inline float log10(float x) { return log_scaled(x, 0.434294492f, -1.010305e-8f, 0.30103001f, -1.43209888e-8f); }

// x's nearest multiple of pi/2, mod 4, and what is left, in [-pi/4, pi/4].
inline int reduce(float x, __private float* r) {
  if (__builtin_fabsf(x) < 20000.0f) { // pi/2 in three parts: fma keeps the small ones exact
    float n = __builtin_rintf(x * 0.636619747f);
    float a = fma(n, -1.57079637f, x);
    a = fma(n, 4.37113883e-8f, a);
    *r = fma(n, 1.71512451e-15f, a);
    return (int)n & 3;
  }
  // x * 2/pi from 2/pi's bits: those above weigh multiples of 4, those below nothing.
  const uint table[8] = {0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
  uint u = bits(x), m = (u & 0x7fffffu) | 0x800000u;
  int first = (int)((u >> 23) & 255u) - 150 + 32 - 2; // of table's bits: the one that times m weighs 2^1
  int w = first / 32, s = first % 32;
  uint part[3];
  for (int i = 0; i < 3; ++i) {
    ulong two = ((ulong)table[w + i] << 32) | (w + i + 1 < 8 ? table[w + i + 1] : 0u);
    part[i] = (uint)(two << s >> 32);
  }
  ulong product = (((ulong)part[0] << 32) | part[1]) * m + (((ulong)part[2] * m) >> 32);
  int quadrant = (int)(product >> 62);
  long fraction = (long)(product << 2); // as a signed fraction of pi/2: what is over one half counts down
  if (fraction < 0) quadrant++;
  float near = (float)fraction, v = near * 8.51530395e-20f; // pi/2 * 2^-64
  v += fma(near, 8.51530395e-20f, -v) + (float)(fraction - (long)near) * 8.51530395e-20f + near * -2.36959911e-27f;
  if (u >> 31) { v = -v; quadrant = -quadrant; }
  *r = v;
  return quadrant & 3;
}

inline float sin_small(float r) {
  float z = r * r, p = 2.75573192e-6f;
  p = fma(p, z, -1.98412701e-4f);
  p = fma(p, z, 8.33333377e-3f);
  p = fma(p, z, -0.166666672f);
  return fma(p * z, r, r);
}

inline float cos_small(float r) {
  float z = r * r, p = -2.75573199e-7f;
  p = fma(p, z, 2.48015876e-5f);
  p = fma(p, z, -1.38888892e-3f);
  p = fma(p, z, 4.16666679e-2f);
  float square = 0.5f * z, one = 1.0f - square;
  return one + ((1.0f - one - square) + p * z * z);
}

inline float quadrant(int q, float r) {
  float v = q & 1 ? cos_small(r) : sin_small(r);
  return q & 2 ? -v : v;
}

inline float sin(float x) {
  if (!(__builtin_fabsf(x) < infinity())) return nan();
  if (x == 0.0f) return x;
  float r;
  int q = reduce(x, &r);
  return quadrant(q, r);
}

inline float cos(float x) {
  if (!(__builtin_fabsf(x) < infinity())) return nan();
  float r;
  int q = reduce(x, &r);
  return quadrant(q + 1, r);
}

inline float tanh(float x) {
  float a = __builtin_fabsf(x), t;
  if (x != x || a < 1e-4f) return x;
  if (a >= 0.55f) {
    t = a > 10.0f ? 1.0f : 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  } else { // a - a^3/3 + ..., from five terms of tanh's continued fraction
    float z = a * a, d = fma(fma(15.0f, z, 420.0f), z, 945.0f);
    t = fma(-a, z * fma(14.0f, z, 315.0f) / d, a);
  }
  return x < 0.0f ? -t : t;
}

// |x|^y for finite positive |x|, by log2 and exp2 in two floats each.
inline float pow_positive(float x, float y) {
  int e;
  float f = split(x, &e) - 1.0f;
  float d = 2.0f + f, d_low = f - (d - 2.0f);
  float s = f / d, s_low = (fma(-s, d, f) - s * d_low) / d;
  float z = s * s, z_low = fma(s, s, -z) + 2.0f * s * s_low;
  float q = 0.153846160f; // log(m) = 2s * (1 + z/3 + z^2 (1/5 + ...)): here twice those
  q = fma(q, z, 0.181818187f);
  q = fma(q, z, 0.222222224f);
  q = fma(q, z, 0.285714298f);
  q = fma(q, z, 0.400000006f);
  float third = z * 0.666666687f;
  float third_low = fma(z, 0.666666687f, -third) + z * -1.98682155e-8f + z_low * 0.666666687f + q * z * z;
  float c = 2.0f + third, c_low = third - (c - 2.0f) + third_low;
  float l = s * c, l_low = fma(s, c, -l) + s * c_low + s_low * c;
  float b = l * 1.44269502f, b_low = fma(l, 1.44269502f, -b) + l * 1.92596303e-8f + l_low * 1.44269502f;
  float n = (float)e, h = n + b;
  float h_low = (e == 0 ? 0.0f : b - (h - n)) + b_low;
  float t = y * h;
  if (!(__builtin_fabsf(t) < 200.0f)) return t > 0.0f ? infinity() : 0.0f;
  float t_low = fma(y, h, -t) + y * h_low;
  float whole = __builtin_rintf(t), r = (t - whole) + t_low;
  if (whole > 128.0f) return infinity();
  if (whole < -151.0f) return 0.0f;
  float a = r * 0.693147182f;
  return scale(exp_small(a, fma(r, 0.693147182f, -a) + r * -1.90465421e-9f), (int)whole);
}

inline float pow(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return nan();
  float a = __builtin_fabsf(x), whole = __builtin_truncf(y);
  bool odd = whole == y && __builtin_fabsf(y) < 16777216.0f && ((int)y & 1);
  float r;
  if (__builtin_fabsf(y) == infinity()) r = a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? infinity() : 0.0f;
  else if (a == 0.0f || a == infinity()) r = (a == 0.0f) == (y < 0.0f) ? infinity() : 0.0f;
  else if (x < 0.0f && whole != y) return nan();
  else r = pow_positive(a, y);
  return odd && bits(x) >> 31 ? -r : r;
}

inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

} // namespace __sim
