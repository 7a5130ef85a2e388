// Vectors of bool, packed vectors, vec<T, N>, and MSL's constructors: float4(a, b2, c) is a macro that calls an overload of
// __make_float4, since a vector type of the compiler has no constructors.
#pragma once

#define __SIM_BOOL(N, ALIGN, FIELDS) \
  struct alignas(ALIGN) bool##N { \
    bool FIELDS; \
    bool##N() = default; \
    explicit bool##N(bool a) { for (int i = 0; i < N; ++i) (*this)[i] = a; } \
    bool##N(int##N v) { for (int i = 0; i < N; ++i) (*this)[i] = v[i] != 0; } \
    bool##N(short##N v) { for (int i = 0; i < N; ++i) (*this)[i] = v[i] != 0; } \
    bool##N(char##N v) { for (int i = 0; i < N; ++i) (*this)[i] = v[i] != 0; } \
    bool##N(long##N v) { for (int i = 0; i < N; ++i) (*this)[i] = v[i] != 0; } \
    bool& operator[](int i) { return ((bool*)this)[i]; } \
    bool operator[](int i) const { return ((const bool*)this)[i]; } \
  };
__SIM_BOOL(2, 2, x; bool y)
__SIM_BOOL(3, 4, x; bool y; bool z)
__SIM_BOOL(4, 4, x; bool y; bool z; bool w)
#undef __SIM_BOOL

namespace __sim {
template <class V, class A> struct cast { // scalar to vector: the same in every component
  static V of(A a) { return (V)a; }
};
template <class V, class E> struct cast<V, E __attribute__((ext_vector_type(2)))> {
  typedef E From __attribute__((ext_vector_type(2)));
  static V of(From a) { return __builtin_convertvector(a, V); }
};
template <class V, class E> struct cast<V, E __attribute__((ext_vector_type(3)))> {
  typedef E From __attribute__((ext_vector_type(3)));
  static V of(From a) { return __builtin_convertvector(a, V); }
};
template <class V, class E> struct cast<V, E __attribute__((ext_vector_type(4)))> {
  typedef E From __attribute__((ext_vector_type(4)));
  static V of(From a) { return __builtin_convertvector(a, V); }
};
template <class V> struct cast<V, bfloat2> { static V of(bfloat2 a) { return cast<V, float2>::of((float2)a); } };
template <class V> struct cast<V, bfloat3> { static V of(bfloat3 a) { return cast<V, float3>::of((float3)a); } };
template <class V> struct cast<V, bfloat4> { static V of(bfloat4 a) { return cast<V, float4>::of((float4)a); } };
template <class V> struct cast<V, bfloat> { static V of(bfloat a) { return (V)(float)a; } };
template <class V> struct cast<V, bool2> { static V of(bool2 a) { V v; for (int i = 0; i < 2; ++i) v[i] = a[i]; return v; } };
template <class V> struct cast<V, bool3> { static V of(bool3 a) { V v; for (int i = 0; i < 3; ++i) v[i] = a[i]; return v; } };
template <class V> struct cast<V, bool4> { static V of(bool4 a) { V v; for (int i = 0; i < 4; ++i) v[i] = a[i]; return v; } };

// N elements at the element's alignment.
template <class T, class V> struct packed2 {
  T x, y;
  packed2() = default;
  packed2(V v) : x(v.x), y(v.y) {}
  operator V() const { return V{x, y}; }
  operator V() const __constant { return V{x, y}; }
};
template <class T, class V> struct packed3 {
  T x, y, z;
  packed3() = default;
  packed3(V v) : x(v.x), y(v.y), z(v.z) {}
  operator V() const { return V{x, y, z}; }
  operator V() const __constant { return V{x, y, z}; }
};
template <class T, class V> struct packed4 {
  T x, y, z, w;
  packed4() = default;
  packed4(V v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
  operator V() const { return V{x, y, z, w}; }
  operator V() const __constant { return V{x, y, z, w}; }
};
template <class T, int N> struct vec_of;
}

#define __SIM_MAKE(T) \
  namespace metal { \
  inline T##2 __make_##T##2() { return (T##2)(0); } \
  inline T##3 __make_##T##3() { return (T##3)(0); } \
  inline T##4 __make_##T##4() { return (T##4)(0); } \
  template <class A> inline T##2 __make_##T##2(A a) { return __sim::cast<T##2, A>::of(a); } \
  template <class A> inline T##3 __make_##T##3(A a) { return __sim::cast<T##3, A>::of(a); } \
  template <class A> inline T##4 __make_##T##4(A a) { return __sim::cast<T##4, A>::of(a); } \
  inline T##2 __make_##T##2(T a, T b) { return (T##2)(a, b); } \
  inline T##3 __make_##T##3(T a, T b, T c) { return (T##3)(a, b, c); } \
  inline T##3 __make_##T##3(T##2 a, T b) { return (T##3)(a, b); } \
  inline T##3 __make_##T##3(T a, T##2 b) { return (T##3)(a, b); } \
  inline T##4 __make_##T##4(T a, T b, T c, T d) { return (T##4)(a, b, c, d); } \
  inline T##4 __make_##T##4(T##2 a, T##2 b) { return (T##4)(a, b); } \
  inline T##4 __make_##T##4(T##2 a, T b, T c) { return (T##4)(a, b, c); } \
  inline T##4 __make_##T##4(T a, T##2 b, T c) { return (T##4)(a, b, c); } \
  inline T##4 __make_##T##4(T a, T b, T##2 c) { return (T##4)(a, b, c); } \
  inline T##4 __make_##T##4(T##3 a, T b) { return (T##4)(a, b); } \
  inline T##4 __make_##T##4(T a, T##3 b) { return (T##4)(a, b); } \
  } \
  using metal::__make_##T##2; \
  using metal::__make_##T##3; \
  using metal::__make_##T##4; \
  typedef __sim::packed2<T, T##2> packed_##T##2; \
  typedef __sim::packed3<T, T##3> packed_##T##3; \
  typedef __sim::packed4<T, T##4> packed_##T##4; \
  namespace __sim { \
  template <> struct vec_of<T, 2> { typedef T##2 type; }; \
  template <> struct vec_of<T, 3> { typedef T##3 type; }; \
  template <> struct vec_of<T, 4> { typedef T##4 type; }; \
  }
__SIM_TYPES(__SIM_MAKE)
#undef __SIM_MAKE

typedef __sim::packed2<bfloat, bfloat2> packed_bfloat2;
typedef __sim::packed3<bfloat, bfloat3> packed_bfloat3;
typedef __sim::packed4<bfloat, bfloat4> packed_bfloat4;

namespace __sim {
template <class T> struct vec_of<T, 1> { typedef T type; };
template <> struct vec_of<bfloat, 2> { typedef bfloat2 type; };
template <> struct vec_of<bfloat, 3> { typedef bfloat3 type; };
template <> struct vec_of<bfloat, 4> { typedef bfloat4 type; };
template <> struct vec_of<bool, 2> { typedef bool2 type; };
template <> struct vec_of<bool, 3> { typedef bool3 type; };
template <> struct vec_of<bool, 4> { typedef bool4 type; };
}
namespace metal {
template <class T, int N> using vec = typename __sim::vec_of<T, N>::type;
}

#define float2(...) __make_float2(__VA_ARGS__)
#define float3(...) __make_float3(__VA_ARGS__)
#define float4(...) __make_float4(__VA_ARGS__)
#define half2(...) __make_half2(__VA_ARGS__)
#define half3(...) __make_half3(__VA_ARGS__)
#define half4(...) __make_half4(__VA_ARGS__)
#define int2(...) __make_int2(__VA_ARGS__)
#define int3(...) __make_int3(__VA_ARGS__)
#define int4(...) __make_int4(__VA_ARGS__)
#define uint2(...) __make_uint2(__VA_ARGS__)
#define uint3(...) __make_uint3(__VA_ARGS__)
#define uint4(...) __make_uint4(__VA_ARGS__)
#define short2(...) __make_short2(__VA_ARGS__)
#define short3(...) __make_short3(__VA_ARGS__)
#define short4(...) __make_short4(__VA_ARGS__)
#define ushort2(...) __make_ushort2(__VA_ARGS__)
#define ushort3(...) __make_ushort3(__VA_ARGS__)
#define ushort4(...) __make_ushort4(__VA_ARGS__)
#define char2(...) __make_char2(__VA_ARGS__)
#define char3(...) __make_char3(__VA_ARGS__)
#define char4(...) __make_char4(__VA_ARGS__)
#define uchar2(...) __make_uchar2(__VA_ARGS__)
#define uchar3(...) __make_uchar3(__VA_ARGS__)
#define uchar4(...) __make_uchar4(__VA_ARGS__)
#define long2(...) __make_long2(__VA_ARGS__)
#define long3(...) __make_long3(__VA_ARGS__)
#define long4(...) __make_long4(__VA_ARGS__)
#define ulong2(...) __make_ulong2(__VA_ARGS__)
#define ulong3(...) __make_ulong3(__VA_ARGS__)
#define ulong4(...) __make_ulong4(__VA_ARGS__)
