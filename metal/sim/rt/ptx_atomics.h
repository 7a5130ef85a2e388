// Relaxed atomics as instructions: the compiler's own would become calls that nothing resolves.
#pragma once

namespace __sim {
// One instruction on a word in global or shared memory. T is its type to the caller, KIND to the instruction.
#define __SIM_ATOM(SPACE, STATE, NAME, T, OP, KIND, CONSTRAINT) \
  inline T NAME(volatile SPACE T* p, T v) { \
    T old; \
    __asm__ volatile("atom." STATE "." OP "." KIND " %0, [%1], %2;" : "=" CONSTRAINT(old) : "l"(p), CONSTRAINT(v) : "memory"); \
    return old; \
  }
#define __SIM_ATOM_WORD(SPACE, STATE, T, KIND) \
  __SIM_ATOM(SPACE, STATE, atomic_exchange, T, "exch", "b32", "r") \
  __SIM_ATOM(SPACE, STATE, atomic_add, T, "add", KIND, "r") \
  __SIM_ATOM(SPACE, STATE, atomic_min, T, "min", KIND, "r") \
  __SIM_ATOM(SPACE, STATE, atomic_max, T, "max", KIND, "r") \
  __SIM_ATOM(SPACE, STATE, atomic_and, T, "and", "b32", "r") \
  __SIM_ATOM(SPACE, STATE, atomic_or, T, "or", "b32", "r") \
  __SIM_ATOM(SPACE, STATE, atomic_xor, T, "xor", "b32", "r") \
  inline T atomic_sub(volatile SPACE T* p, T v) { return atomic_add(p, (T)(0u - (uint)v)); } \
  inline T atomic_load(volatile SPACE T* p) { return *p; } \
  inline void atomic_store(volatile SPACE T* p, T v) { *p = v; }
// The value before: *expected on success.
#define __SIM_ATOM_COMPARE(SPACE, STATE, T, CONSTRAINT) \
  inline bool atomic_compare(volatile SPACE T* p, thread T* expected, T v) { \
    T old, wanted = *expected; \
    __asm__ volatile("atom." STATE ".cas.b32 %0, [%1], %2, %3;" : "=" CONSTRAINT(old) : "l"(p), CONSTRAINT(wanted), CONSTRAINT(v) : "memory"); \
    *expected = old; \
    return __builtin_astype(old, uint) == __builtin_astype(wanted, uint); \
  }
// A bool is a byte: its word is exchanged whole.
#define __SIM_ATOM_BOOL(SPACE) \
  inline bool atomic_load(volatile SPACE bool* p) { return *p; } \
  inline void atomic_store(volatile SPACE bool* p, bool v) { *p = v; } \
  inline bool atomic_compare(volatile SPACE bool* p, thread bool* expected, bool v) { \
    volatile SPACE uint* word = (volatile SPACE uint*)((ulong)p & ~3ul); \
    uint shift = 8 * ((uint)(ulong)p & 3), old = *word; \
    for (;;) { \
      bool is = old >> shift & 1; \
      if (is != *expected) { *expected = is; return false; } \
      if (atomic_compare(word, &old, (old & ~(255u << shift)) | (uint)v << shift)) return true; \
    } \
  } \
  inline bool atomic_exchange(volatile SPACE bool* p, bool v) { \
    bool old = *p; \
    while (!atomic_compare(p, &old, v)) {} \
    return old; \
  }
#define __SIM_ATOMS(SPACE, STATE) \
  __SIM_ATOM_WORD(SPACE, STATE, int, "s32") \
  __SIM_ATOM_WORD(SPACE, STATE, uint, "u32") \
  __SIM_ATOM_COMPARE(SPACE, STATE, int, "r") \
  __SIM_ATOM_COMPARE(SPACE, STATE, uint, "r") \
  __SIM_ATOM_BOOL(SPACE)
__SIM_ATOMS(device, "global")
__SIM_ATOMS(threadgroup, "shared")

__SIM_ATOM(device, "global", atomic_exchange, float, "exch", "b32", "f")
__SIM_ATOM(device, "global", atomic_add, float, "add", "f32", "f")
__SIM_ATOM_COMPARE(device, "global", float, "f")
inline float atomic_sub(volatile device float* p, float v) { return atomic_add(p, -v); }
inline float atomic_load(volatile device float* p) { return *p; }
inline void atomic_store(volatile device float* p, float v) { *p = v; }
#undef __SIM_ATOMS
#undef __SIM_ATOM_BOOL
#undef __SIM_ATOM_COMPARE
#undef __SIM_ATOM_WORD
#undef __SIM_ATOM
}
