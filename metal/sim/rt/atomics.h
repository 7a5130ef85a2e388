// Relaxed atomics. An atomic can't be copied or touched but by these functions; float atomics live in device memory only.
#pragma once
#define atomic_int msl_atomic_int // OpenCL's default header has these names
#define atomic_uint msl_atomic_uint
#define atomic_float msl_atomic_float
#define memory_order msl_memory_order
#define memory_order_relaxed msl_relaxed

namespace metal {
enum memory_order { memory_order_relaxed };

#define __SIM_ATOMIC(NAME, T) \
  class NAME { \
    T value; \
   public: \
    NAME() = delete; \
    NAME(const NAME&) = delete; \
    void operator=(const NAME&) device = delete; \
    void operator=(const NAME&) threadgroup = delete; \
    friend struct __atomic_access; \
  };
struct __atomic_access;
__SIM_ATOMIC(atomic_int, int)
__SIM_ATOMIC(atomic_uint, uint)
__SIM_ATOMIC(atomic_bool, bool)
__SIM_ATOMIC(atomic_float, float)
#undef __SIM_ATOMIC
template <class T> struct __atomic_of;
template <> struct __atomic_of<int> { typedef atomic_int type; };
template <> struct __atomic_of<uint> { typedef atomic_uint type; };
template <> struct __atomic_of<bool> { typedef atomic_bool type; };
template <> struct __atomic_of<float> { typedef atomic_float type; };
template <class T> using atomic = typename __atomic_of<T>::type;
struct __atomic_access {
  template <class A> static auto of(volatile device A* p) { return &p->value; }
  template <class A> static auto of(volatile threadgroup A* p) { return &p->value; }
};

// The order is a template-like constant in MSL; here the parameter's only value.
#define __SIM_ACCESS(SPACE, A, T) \
  inline T atomic_load_explicit(const volatile SPACE A* p, memory_order) { return __sim::atomic_load(__atomic_access::of((volatile SPACE A*)p)); } \
  inline void atomic_store_explicit(volatile SPACE A* p, T v, memory_order) { __sim::atomic_store(__atomic_access::of(p), v); } \
  inline T atomic_exchange_explicit(volatile SPACE A* p, T v, memory_order) { return __sim::atomic_exchange(__atomic_access::of(p), v); } \
  inline bool atomic_compare_exchange_weak_explicit(volatile SPACE A* p, thread T* expected, T v, memory_order, memory_order) { \
    return __sim::atomic_compare(__atomic_access::of(p), expected, v); \
  }
#define __SIM_FETCH(SPACE, A, T, OP) \
  inline T atomic_fetch_##OP##_explicit(volatile SPACE A* p, T v, memory_order) { return __sim::atomic_##OP(__atomic_access::of(p), v); }
#define __SIM_SPACE(SPACE) \
  __SIM_ACCESS(SPACE, atomic_int, int) \
  __SIM_ACCESS(SPACE, atomic_uint, uint) \
  __SIM_ACCESS(SPACE, atomic_bool, bool) \
  __SIM_FETCH(SPACE, atomic_int, int, add) __SIM_FETCH(SPACE, atomic_int, int, sub) __SIM_FETCH(SPACE, atomic_int, int, min) \
  __SIM_FETCH(SPACE, atomic_int, int, max) __SIM_FETCH(SPACE, atomic_int, int, and) __SIM_FETCH(SPACE, atomic_int, int, or) \
  __SIM_FETCH(SPACE, atomic_int, int, xor) \
  __SIM_FETCH(SPACE, atomic_uint, uint, add) __SIM_FETCH(SPACE, atomic_uint, uint, sub) __SIM_FETCH(SPACE, atomic_uint, uint, min) \
  __SIM_FETCH(SPACE, atomic_uint, uint, max) __SIM_FETCH(SPACE, atomic_uint, uint, and) __SIM_FETCH(SPACE, atomic_uint, uint, or) \
  __SIM_FETCH(SPACE, atomic_uint, uint, xor)
__SIM_SPACE(device)
__SIM_SPACE(threadgroup)
__SIM_ACCESS(device, atomic_float, float)
__SIM_FETCH(device, atomic_float, float, add)
__SIM_FETCH(device, atomic_float, float, sub)
#undef __SIM_SPACE
#undef __SIM_FETCH
#undef __SIM_ACCESS
}
