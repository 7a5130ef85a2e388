// simdgroup_matrix: 8x8 of float, half or bfloat, multiplied in fp32.
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

namespace metal {
template <class T, int R, int C> struct simdgroup_matrix {
  static_assert(__sim::is_element<T>::value && R == 8 && C == 8, "a simdgroup_matrix is 8x8 of float, half or bfloat");
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    uint l = __sim::lane(), row = __sim::row_of(l), column = __sim::column_of(l);
    __e.at[0] = row == column ? diagonal : T(0.0f);
    __e.at[1] = row == column + 1 ? diagonal : T(0.0f);
  }
  thread __sim::pair<T>& thread_elements() thread { return __e; }
  __sim::pair<T> thread_elements() const { return __e; }
  __sim::pair<T> __e;
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int R, int C> inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, R, C> m;
  m.__e.at[0] = m.__e.at[1] = v;
  return m;
}

#define __SIM_MEMORY(SPACE) \
  template <class T> inline void simdgroup_load(thread simdgroup_matrix<T, 8, 8>& m, const SPACE T* p, ulong stride = 8, ulong2 origin = 0, bool transpose = false) { \
    uint l = __sim::lane(); \
    ulong row = __sim::row_of(l), column = __sim::column_of(l); \
    for (uint i = 0; i < 2; ++i) \
      m.__e.at[i] = transpose ? p[(origin.y + column + i) * stride + origin.x + row] : p[(origin.y + row) * stride + origin.x + column + i]; \
  } \
  template <class T> inline void simdgroup_store(simdgroup_matrix<T, 8, 8> m, SPACE T* p, ulong stride = 8, ulong2 origin = 0, bool transpose = false) { \
    uint l = __sim::lane(); \
    ulong row = __sim::row_of(l), column = __sim::column_of(l); \
    for (uint i = 0; i < 2; ++i) \
      if (transpose) p[(origin.y + column + i) * stride + origin.x + row] = m.__e.at[i]; \
      else p[(origin.y + row) * stride + origin.x + column + i] = m.__e.at[i]; \
  }
__SIM_MEMORY(device)
__SIM_MEMORY(threadgroup)
#undef __SIM_MEMORY

#if !defined(__SIM_TARGET_MULTIPLY)
template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
  float x[2] = {(float)a.__e.at[0], (float)a.__e.at[1]}, y[2] = {(float)b.__e.at[0], (float)b.__e.at[1]};
  float z[2] = {(float)c.__e.at[0], (float)c.__e.at[1]}, r[2];
  __sim::multiply(r, x, y, z);
  d.__e.at[0] = D(r[0]), d.__e.at[1] = D(r[1]);
}
#endif
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
