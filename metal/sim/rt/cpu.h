// The target functions of sim:cpu: calls into the fiber runtime (fiber.c).
#pragma once

struct __sim_group_ids { uint group[3], groups[3], threads[3]; };
struct __sim_thread_ids { uint position[3], index; };

extern "C" {
thread const struct __sim_group_ids* sim_group(void) __attribute__((const));
thread const struct __sim_thread_ids* sim_thread(void) __attribute__((const));
uint sim_lane(void) __attribute__((const));
void sim_threadgroup_barrier(void);
void sim_simdgroup_barrier(void);
thread void* sim_exchange(thread const void* value, uint size);
thread void* sim_fold(thread const void* value, uint size, void (*fold)(thread void*, uint));
}

namespace __sim {
inline uint3 three(thread const uint* v) { return (uint3)(v[0], v[1], v[2]); }
inline uint3 group() { return three(sim_group()->group); }
inline uint3 groups() { return three(sim_group()->groups); }
inline uint3 threads() { return three(sim_group()->threads); }
inline uint3 position() { return three(sim_thread()->position); }
inline uint index() { return sim_thread()->index; }
inline uint lane() { return sim_lane(); }
inline void threadgroup_barrier() { sim_threadgroup_barrier(); }
inline void simdgroup_barrier() { sim_simdgroup_barrier(); }
inline void hold_loads() {}

// The value of another lane. Slots are 16 bytes apart.
template <class T> inline T shuffle(T v, uint from) {
  return *(thread const T*)((thread const char*)sim_exchange(&v, sizeof(T)) + 16 * (from & 31));
}

// OP::of over all lanes in a fixed tree: lane i with i+16, then i+8, ...; the PTX butterfly adds in the same order.
template <class OP, class T> void fold_all(thread void* slots, uint lanes) {
  thread char* at = (thread char*)slots;
  for (uint step = 16; step > 0; step /= 2)
    for (uint i = 0; i < step; ++i)
      if (i + step < lanes)
        *(thread T*)(at + 16 * i) = OP::of(*(thread T*)(at + 16 * i), *(thread T*)(at + 16 * (i + step)));
}
template <class OP, class T> inline T reduce(T v) { return *(thread const T*)sim_fold(&v, sizeof(T), fold_all<OP, T>); }

// OP::of over this lane and those before, in Kogge and Stone's order.
template <class OP, class T> void fold_before(thread void* slots, uint lanes) {
  thread char* at = (thread char*)slots;
  for (uint step = 1; step < 32; step *= 2)
    for (uint i = lanes; i-- > step;)
      *(thread T*)(at + 16 * i) = OP::of(*(thread T*)(at + 16 * (i - step)), *(thread T*)(at + 16 * i));
}
template <class OP, class T> inline T scan(T v) {
  return *(thread const T*)((thread const char*)sim_fold(&v, sizeof(T), fold_before<OP, T>) + 16 * lane());
}

inline void fold_ballot(thread void* slots, uint lanes) {
  thread char* at = (thread char*)slots;
  uint set = 0;
  for (uint i = 0; i < lanes; ++i) set |= *(thread uint*)(at + 16 * i) << i;
  *(thread uint*)at = set;
}
inline uint ballot(bool b) {
  uint v = b;
  return *(thread const uint*)sim_fold(&v, sizeof v, fold_ballot);
}
}

// Atomics, by the compiler's builtins, which want all their pointers in one space: the generic one.
#define __SIM_PLAIN(T) \
  inline T atomic_load(volatile T* p) { T v; __atomic_load(p, (T*)&v, __ATOMIC_RELAXED); return v; } \
  inline void atomic_store(volatile T* p, T v) { __atomic_store(p, (T*)&v, __ATOMIC_RELAXED); } \
  inline T atomic_exchange(volatile T* p, T v) { T r; __atomic_exchange(p, (T*)&v, (T*)&r, __ATOMIC_RELAXED); return r; } \
  inline bool atomic_compare(volatile T* p, thread T* expected, T v) { \
    return __atomic_compare_exchange(p, (T*)expected, (T*)&v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
  }
#define __SIM_FETCH(T, OP) \
  inline T atomic_##OP(volatile T* p, T v) { return __atomic_fetch_##OP(p, v, __ATOMIC_RELAXED); }
#define __SIM_INTEGER(T) \
  __SIM_FETCH(T, add) __SIM_FETCH(T, sub) __SIM_FETCH(T, min) __SIM_FETCH(T, max) __SIM_FETCH(T, and) __SIM_FETCH(T, or) __SIM_FETCH(T, xor)
namespace __sim {
__SIM_PLAIN(int) __SIM_PLAIN(uint) __SIM_PLAIN(bool) __SIM_PLAIN(float)
__SIM_INTEGER(int) __SIM_INTEGER(uint)
__SIM_FETCH(float, add) __SIM_FETCH(float, sub)
}
#undef __SIM_PLAIN
#undef __SIM_FETCH
#undef __SIM_INTEGER
