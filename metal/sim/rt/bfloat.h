// bfloat: storage for the upper half of a float. It converts to float implicitly, and from anything only when asked.
#pragma once

struct bfloat {
  ushort __bits;
  bfloat() = default;
  bfloat(const bfloat&) = default;
  bfloat(const __constant bfloat& o) : __bits(o.__bits) {}
  bfloat& operator=(const bfloat&) = default;

  // Rounds to nearest even; a NaN stays one.
  explicit bfloat(float f) {
#if defined(__NVPTX__)
    __asm__("cvt.rn.bf16.f32 %0, %1;" : "=h"(__bits) : "f"(f));
#else
    uint u = __builtin_astype(f, uint);
    __bits = (ushort)(f != f ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
  }
  explicit bfloat(half f) : bfloat((float)f) {}
  explicit bfloat(int i) : bfloat((float)i) {}
  explicit bfloat(uint i) : bfloat((float)i) {}
  operator float() const { return __builtin_astype((uint)__bits << 16, float); }
  operator float() const __constant { return __builtin_astype((uint)__bits << 16, float); }
  operator half() const = delete;
  operator half() const __constant = delete;
};

// Arithmetic of two bfloats gives a bfloat in MSL, rounded: one rounding more than it looks, so kernels may not use it.
#define __SIM_ROUNDS __attribute__((unavailable("arithmetic of two bfloats is rounded to bfloat: write float(a) * float(b), and bfloat(x) to round")))
__SIM_ROUNDS bfloat operator+(bfloat a, bfloat b);
__SIM_ROUNDS bfloat operator-(bfloat a, bfloat b);
__SIM_ROUNDS bfloat operator*(bfloat a, bfloat b);
__SIM_ROUNDS bfloat operator/(bfloat a, bfloat b);
#undef __SIM_ROUNDS
inline bfloat operator-(bfloat a) { return bfloat(-float(a)); }

struct alignas(4) bfloat2 {
  bfloat x, y;
  bfloat2() = default;
  bfloat2(bfloat a, bfloat b) : x(a), y(b) {}
  explicit bfloat2(bfloat a) : x(a), y(a) {}
#if defined(__NVPTX__)
  explicit bfloat2(float2 v) {
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(*(thread uint __attribute__((may_alias))*)this) : "f"(v.y), "f"(v.x));
  }
#else
  explicit bfloat2(float2 v) : x(v.x), y(v.y) {}
#endif
  explicit operator float2() const { return (float2)(float(x), float(y)); }
};

struct alignas(8) bfloat3 {
  bfloat x, y, z;
  bfloat3() = default;
  bfloat3(bfloat a, bfloat b, bfloat c) : x(a), y(b), z(c) {}
  explicit bfloat3(bfloat a) : x(a), y(a), z(a) {}
  explicit bfloat3(float3 v) : x(v.x), y(v.y), z(v.z) {}
  explicit operator float3() const { return (float3)(float(x), float(y), float(z)); }
};

struct alignas(8) bfloat4 {
  bfloat x, y, z, w;
  bfloat4() = default;
  bfloat4(bfloat a, bfloat b, bfloat c, bfloat d) : x(a), y(b), z(c), w(d) {}
  explicit bfloat4(bfloat a) : x(a), y(a), z(a), w(a) {}
  explicit bfloat4(float4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
  explicit operator float4() const { return (float4)(float(x), float(y), float(z), float(w)); }
};

namespace __sim {
// as_type to and from types that are structs here.
template <class To, class From> inline To reinterpret(From f) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of equal size");
  union U {
    From from;
    To to;
    U() {}
  } u;
  u.from = f;
  return u.to;
}
}

namespace metal {
template <> inline bfloat as_type<bfloat, ushort>(ushort u) { bfloat b; b.__bits = u; return b; }
template <> inline bfloat as_type<bfloat, short>(short u) { bfloat b; b.__bits = (ushort)u; return b; }
template <> inline ushort as_type<ushort, bfloat>(bfloat b) { return b.__bits; }
template <> inline short as_type<short, bfloat>(bfloat b) { return (short)b.__bits; }
template <> inline bfloat2 as_type<bfloat2, uint>(uint u) { return __sim::reinterpret<bfloat2>(u); }
template <> inline bfloat2 as_type<bfloat2, ushort2>(ushort2 u) { return __sim::reinterpret<bfloat2>(u); }
template <> inline bfloat4 as_type<bfloat4, uint2>(uint2 u) { return __sim::reinterpret<bfloat4>(u); }
template <> inline bfloat4 as_type<bfloat4, ushort4>(ushort4 u) { return __sim::reinterpret<bfloat4>(u); }
template <> inline uint as_type<uint, bfloat2>(bfloat2 b) { return __sim::reinterpret<uint>(b); }
template <> inline ushort2 as_type<ushort2, bfloat2>(bfloat2 b) { return __sim::reinterpret<ushort2>(b); }
template <> inline uint2 as_type<uint2, bfloat4>(bfloat4 b) { return __sim::reinterpret<uint2>(b); }
template <> inline ushort4 as_type<ushort4, bfloat4>(bfloat4 b) { return __sim::reinterpret<ushort4>(b); }
}
