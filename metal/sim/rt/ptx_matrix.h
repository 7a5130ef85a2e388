// Fragments of sim:cuda, made for the GPU's multiply instructions (PTX ISA, "Matrix Fragments for mma.m16n8k8" and
// "m16n8k16"): lane l holds elements (l/4, 2(l%4)) and the one right of it, which is what they want of A and C, and in t
// elements (2(l%4), l/4) and the one below, which is what they want of B. A kernel uses one of the two; nothing is left of
// the other, since nothing here has side effects. Which lane holds what differs from Apple's GPUs: kernels may not ask.
#pragma once

namespace __sim {
template <class T> struct fragment { alignas(4) pair<T> e, t; };
typedef uint word __attribute__((may_alias));

// The two elements of 16 bits as one register.
template <class T> inline uint word_of(thread const pair<T>& p) { return *(thread const word*)&p; }
template <class T> inline pair<T> pair_of(uint w) {
  pair<T> p;
  *(thread word*)&p = w;
  return p;
}

template <class T> inline void fill(thread fragment<T>& f, T all) { f.e.at[0] = f.e.at[1] = f.t.at[0] = f.t.at[1] = all; }

template <class T> inline fragment<T> diagonal(T v) {
  fragment<T> f;
  uint row = lane() / 4, column = lane() % 4 * 2;
  f.e.at[0] = row == column ? v : T(0.0f);
  f.e.at[1] = row == column + 1 ? v : T(0.0f);
  f.t = f.e;
  return f;
}

// Neighbours of 16 bits come with one load where p and the stride allow it, which the compiler mostly knows.
#define __SIM_FRAGMENTS(SPACE) \
  template <class T> inline bool even(const SPACE T* p, ulong stride) { return sizeof(T) == 2 && (((ulong)p | 2 * stride) & 3) == 0; } \
  template <class T> inline pair<T> across(const SPACE T* p, ulong stride) { \
    const SPACE T* at = p + lane() / 4 * stride + lane() % 4 * 2; \
    if (even(p, stride)) return pair_of<T>(*(const SPACE word*)at); \
    return pair<T>{at[0], at[1]}; \
  } \
  template <class T> inline pair<T> down(const SPACE T* p, ulong stride) { \
    const SPACE T* at = p + lane() % 4 * 2 * stride + lane() / 4; \
    return pair<T>{at[0], at[stride]}; \
  } \
  template <class T> inline void load(thread fragment<T>& f, const SPACE T* p, ulong stride, bool transpose) { \
    f.e = transpose ? down(p, stride) : across(p, stride); \
    f.t = transpose ? across(p, stride) : down(p, stride); \
  } \
  template <class T> inline void store(thread const fragment<T>& f, SPACE T* p, ulong stride, bool transpose) { \
    uint row = lane() / 4, column = lane() % 4 * 2; \
    SPACE T* at = transpose ? p + column * stride + row : p + row * stride + column; \
    if (!transpose && even((const SPACE T*)p, stride)) *(SPACE word*)at = word_of(f.e); \
    else at[0] = f.e.at[0], at[transpose ? stride : 1] = f.e.at[1]; \
  }
__SIM_FRAGMENTS(device)
__SIM_FRAGMENTS(threadgroup)
#undef __SIM_FRAGMENTS

// A product's elements in the order that B needs. The shuffles are no side effects, unlike the compiler's own.
inline uint other_lane(uint v, uint from) {
  uint r;
  __asm__("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(v), "r"(from));
  return r;
}
inline void turn(thread fragment<float>& f) {
  uint l = lane();
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    uint from = (l % 4 * 2 + i) * 4 + l / 8;
    uint x = other_lane(__builtin_astype(f.e.at[0], uint), from), y = other_lane(__builtin_astype(f.e.at[1], uint), from);
    f.t.at[i] = __builtin_astype((l / 4) % 2 == 0 ? x : y, float);
  }
}
template <class T> inline void turn(thread fragment<T>& f) {
  uint w;
  __asm__("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(w) : "r"(word_of(f.e)));
  f.t = pair_of<T>(w);
}

// d += a * b of 16x16 by 16x8: a's registers are 8x8 fragments, upper and lower of the left half, then of the right one.
#define __SIM_MMA(T, NAME) \
  inline void mma16(thread float* d, thread const T*, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) { \
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \
  } \
  inline void mma8(thread float* d, thread const T*, uint a0, uint a1, uint b) { \
    __asm__("mma.sync.aligned.m16n8k8.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b)); \
  }
__SIM_MMA(bfloat, "bf16")
__SIM_MMA(half, "f16")
#undef __SIM_MMA

// A float is the sum of two tf32 numbers to 2^-22 of itself; an infinity is one alone.
struct halves {
  uint high, low;
  halves(float x) {
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
    float rest = x - __builtin_astype(high, float);
    rest = (high & 0x7f800000u) == 0x7f800000u ? 0.0f : rest;
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(rest));
  }
};
inline void mma_tf32(thread float* d, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  __asm__("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// d += a * b of 16x8 by 8x8: upper and lower are 8x8 fragments of a. Products of the low parts are under 2^-22.
inline void mma_float(thread float* d, thread const float* upper, thread const float* lower, thread const float* b) {
  halves u0(upper[0]), u1(upper[1]), l0(lower[0]), l1(lower[1]), b0(b[0]), b1(b[1]);
  mma_tf32(d, u0.low, l0.low, u1.low, l1.low, b0.high, b1.high);
  mma_tf32(d, u0.high, l0.high, u1.high, l1.high, b0.low, b1.low);
  mma_tf32(d, u0.high, l0.high, u1.high, l1.high, b0.high, b1.high);
}

template <class A, class B> struct multiplier { // of other types: as floats
  template <class M, class N> static void of(thread float* d, thread const fragment<M>& a, thread const fragment<N>& b) {
    float x[2] = {(float)a.e.at[0], (float)a.e.at[1]}, y[2] = {(float)b.t.at[0], (float)b.t.at[1]}, zero[2] = {0.0f, 0.0f};
    mma_float(d, x, zero, y);
  }
};
template <class T> struct multiplier<T, T> {
  static void of(thread float* d, thread const fragment<T>& a, thread const fragment<T>& b) {
    mma8(d, (thread const T*)0, word_of(a.e), 0, word_of(b.t));
  }
};
template <> struct multiplier<float, float> {
  static void of(thread float* d, thread const fragment<float>& a, thread const fragment<float>& b) {
    float zero[2] = {0.0f, 0.0f};
    mma_float(d, a.e.at, zero, b.t.at);
  }
};

// c + a * b, in the upper half of an instruction.
template <class D, class A, class B, class C>
inline void multiply(thread fragment<D>& d, thread const fragment<A>& a, thread const fragment<B>& b, thread const fragment<C>& c) {
  float r[4] = {(float)c.e.at[0], (float)c.e.at[1], 0.0f, 0.0f};
  multiplier<A, B>::of(r, a, b);
  d.e.at[0] = D(r[0]), d.e.at[1] = D(r[1]);
  turn(d);
}

// Fragments u (upper) and l (lower) of D += two rows of two fragments of A times a column of two of B.
template <class T>
inline void multiply_joined(thread fragment<float>& u, thread fragment<float>& l, thread const fragment<T>& u0, thread const fragment<T>& u1,
                            thread const fragment<T>& l0, thread const fragment<T>& l1, thread const fragment<T>& b0, thread const fragment<T>& b1) {
  float d[4] = {u.e.at[0], u.e.at[1], l.e.at[0], l.e.at[1]};
  mma16(d, (thread const T*)0, word_of(u0.e), word_of(l0.e), word_of(u1.e), word_of(l1.e), word_of(b0.t), word_of(b1.t));
  u.e.at[0] = d[0], u.e.at[1] = d[1], l.e.at[0] = d[2], l.e.at[1] = d[3];
  turn(u), turn(l);
}
inline void multiply_joined(thread fragment<float>& u, thread fragment<float>& l, thread const fragment<float>& u0, thread const fragment<float>& u1,
                            thread const fragment<float>& l0, thread const fragment<float>& l1, thread const fragment<float>& b0, thread const fragment<float>& b1) {
  float d[4] = {u.e.at[0], u.e.at[1], l.e.at[0], l.e.at[1]};
  mma_float(d, u0.e.at, l0.e.at, b0.t.at);
  mma_float(d, u1.e.at, l1.e.at, b1.t.at);
  u.e.at[0] = d[0], u.e.at[1] = d[1], l.e.at[0] = d[2], l.e.at[1] = d[3];
  turn(u), turn(l);
}
}
