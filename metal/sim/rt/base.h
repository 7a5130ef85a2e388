// MSL's keywords and scalar and vector types.
#pragma once
#define local msl_local // words that OpenCL keeps and MSL leaves to programs
#define global msl_global
#define private msl_private
#define generic msl_generic
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
typedef __typeof__(sizeof(0)) size_t;
typedef long ptrdiff_t;

#define kernel __kernel
#define device __global
#if defined(__NVPTX__)
#define constant __global const
#else
#define constant __constant
#endif
#define threadgroup __local
#define thread __private

#define METAL_FUNC inline __attribute__((always_inline))
#define __METAL_VERSION__ 310
#define __METAL_MACOS__ 1
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define HALF_MAX 65504.0h
#define MAXFLOAT FLT_MAX
#define MAXHALF HALF_MAX
#define HUGE_VALF INFINITY
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_PI_F 0.636619772367581343076f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.30258509299404568402f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524401f

// Every scalar type that has vectors of the compiler's own.
#define __SIM_TYPES(X) X(float) X(half) X(int) X(uint) X(short) X(ushort) X(char) X(uchar) X(long) X(ulong)
#define __SIM_INTEGERS(X) X(int) X(uint) X(short) X(ushort) X(char) X(uchar) X(long) X(ulong)
#define __SIM_VECTORS(T) \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4)));
__SIM_TYPES(__SIM_VECTORS)
#undef __SIM_VECTORS

namespace metal {
template <class A, class B> struct is_same { static constexpr __constant bool value = false; };
template <class A> struct is_same<A, A> { static constexpr __constant bool value = true; };
template <class A, class B> constexpr __constant bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T, T V> struct integral_constant { static constexpr __constant T value = V; };

template <class T, class U> inline T as_type(U u) {
  static_assert(!__is_pointer(T) && !__is_pointer(U), "as_type takes no pointers: cast them");
  static_assert(!is_same<T, bool>::value && !is_same<U, bool>::value, "as_type takes no bool: write x ? 1 : 0");
  return __builtin_astype(u, T);
}
}
