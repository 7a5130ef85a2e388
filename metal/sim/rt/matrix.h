// simdgroup_matrix: 8x8 of float, half or bfloat, multiplied in fp32. Its elements are spread over the lanes as the target
// likes (fragments).
#pragma once

namespace __sim {
template <class T> struct is_element { static constexpr __constant bool value = false; };
template <> struct is_element<float> { static constexpr __constant bool value = true; };
template <> struct is_element<half> { static constexpr __constant bool value = true; };
template <> struct is_element<bfloat> { static constexpr __constant bool value = true; };

// Two elements, indexed like the vector that MSL has there.
template <class T> struct pair {
  T at[2];
  thread T& operator[](int i) thread { return at[i]; }
  T operator[](int i) const { return at[i]; }
};
}

#if defined(__NVPTX__)
#include "ptx_matrix.h"
#else
#include "cpu_matrix.h"
#endif

namespace metal {
template <class T, int R, int C> struct simdgroup_matrix {
  static_assert(__sim::is_element<T>::value && R == 8 && C == 8, "a simdgroup_matrix is 8x8 of float, half or bfloat");
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) : __f(__sim::diagonal(diagonal)) {}
  thread __sim::pair<T>& thread_elements() thread { return __f.e; }
  __sim::pair<T> thread_elements() const { return __f.e; }
  __sim::fragment<T> __f;
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int R, int C> inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, R, C> m;
  __sim::fill(m.__f, v);
  return m;
}

#define __SIM_MEMORY(SPACE) \
  template <class T> inline void simdgroup_load(thread simdgroup_matrix<T, 8, 8>& m, const SPACE T* p, ulong stride = 8, ulong2 origin = 0, bool transpose = false) { \
    __sim::load(m.__f, p + origin.y * stride + origin.x, stride, transpose); \
  } \
  template <class T> inline void simdgroup_store(simdgroup_matrix<T, 8, 8> m, SPACE T* p, ulong stride = 8, ulong2 origin = 0, bool transpose = false) { \
    __sim::store(m.__f, p + origin.y * stride + origin.x, stride, transpose); \
  }
__SIM_MEMORY(device)
__SIM_MEMORY(threadgroup)
#undef __SIM_MEMORY

template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
  __sim::multiply(d.__f, a.__f, b.__f, c.__f);
}
template <class D, class A, class B>
inline void simdgroup_multiply(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0.0f)));
}
template <class T> inline simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}

// What kernels that multiply blocks of 8x8 matrices may use where the GPU multiplies larger ones: acc[i][j] += the sum over
// l of a[i][l] * b[l][j], for M by N matrices, K deep, M and K even.
#if defined(__NVPTX__)
#include "ptx_matrix_load.h"
#define __SIM_MULTIPLY_BLOCK(acc, a, b, M, N, K) \
  _Pragma("unroll") for (int i = 0; i < M; i += 2) \
    _Pragma("unroll") for (int j = 0; j < N; ++j) \
      _Pragma("unroll") for (int l = 0; l < K; l += 2) \
        __sim::multiply_joined(acc[i * N + j].__f, acc[(i + 1) * N + j].__f, a[i * K + l].__f, a[i * K + l + 1].__f, \
                               a[(i + 1) * K + l].__f, a[(i + 1) * K + l + 1].__f, b[l * N + j].__f, b[(l + 1) * N + j].__f);
#endif
