// Fragments of sim:cpu: a lane holds two elements of an 8x8 matrix, (row_of(l), column_of(l)) and the one right of it, as
// on Apple's GPUs.
#pragma once

namespace __sim {
inline uint row_of(uint lane) { return (lane >> 2 & 4) | (lane >> 1 & 3); }
inline uint column_of(uint lane) { return (lane >> 1 & 4) | (lane << 1 & 2); }
inline uint lane_of(uint row, uint column) { return (row & 4) << 2 | (row & 3) << 1 | (column & 4) << 1 | (column & 2) >> 1; }

template <class T> struct fragment { pair<T> e; };

template <class T> inline void fill(thread fragment<T>& f, T all) { f.e.at[0] = f.e.at[1] = all; }

template <class T> inline fragment<T> diagonal(T v) {
  fragment<T> f;
  uint row = row_of(lane()), column = column_of(lane());
  f.e.at[0] = row == column ? v : T(0.0f);
  f.e.at[1] = row == column + 1 ? v : T(0.0f);
  return f;
}

#define __SIM_FRAGMENTS(SPACE) \
  template <class T> inline void load(thread fragment<T>& f, const SPACE T* p, ulong stride, bool transpose) { \
    ulong row = row_of(lane()), column = column_of(lane()); \
    for (uint i = 0; i < 2; ++i) f.e.at[i] = transpose ? p[(column + i) * stride + row] : p[row * stride + column + i]; \
  } \
  template <class T> inline void store(thread const fragment<T>& f, SPACE T* p, ulong stride, bool transpose) { \
    ulong row = row_of(lane()), column = column_of(lane()); \
    for (uint i = 0; i < 2; ++i) \
      if (transpose) p[(column + i) * stride + row] = f.e.at[i]; \
      else p[row * stride + column + i] = f.e.at[i]; \
  }
__SIM_FRAGMENTS(device)
__SIM_FRAGMENTS(threadgroup)
#undef __SIM_FRAGMENTS

// c + a * b: k ascending, one fma each.
template <class D, class A, class B, class C>
inline void multiply(thread fragment<D>& d, thread const fragment<A>& a, thread const fragment<B>& b, thread const fragment<C>& c) {
  float mine[4] = {(float)a.e.at[0], (float)a.e.at[1], (float)b.e.at[0], (float)b.e.at[1]};
  thread const float* all = (thread const float*)sim_exchange(mine, sizeof mine);
  uint row = row_of(lane()), column = column_of(lane());
  float d0 = c.e.at[0], d1 = c.e.at[1];
  for (uint k = 0; k < 8; ++k) {
    float x = all[4 * lane_of(row, k) + (k & 1)];
    thread const float* y = all + 4 * lane_of(k, column) + 2;
    d0 = fma(x, y[0], d0);
    d1 = fma(x, y[1], d1);
  }
  d.e.at[0] = D(d0), d.e.at[1] = D(d1);
}
}
