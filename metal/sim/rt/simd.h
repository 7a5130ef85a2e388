// Barriers, and the functions of a simdgroup: for half, float, 8 to 32 bit integers and their vectors; not bfloat or long.
#pragma once

namespace __sim {
struct add { template <class T> static T of(T a, T b) { return a + b; } };
struct mul { template <class T> static T of(T a, T b) { return a * b; } };
struct least { template <class T> static T of(T a, T b) { return metal::min(a, b); } };
struct most { template <class T> static T of(T a, T b) { return metal::max(a, b); } };
struct bit_and { template <class T> static T of(T a, T b) { return a & b; } };
struct bit_or { template <class T> static T of(T a, T b) { return a | b; } };
struct bit_xor { template <class T> static T of(T a, T b) { return a ^ b; } };
}

namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
inline void threadgroup_barrier(mem_flags) { __sim::threadgroup_barrier(); }
inline void simdgroup_barrier(mem_flags f) {
  if (f == mem_flags::mem_none) __sim::hold_loads();
  __sim::simdgroup_barrier();
}

#define __SIM_LANES(T) \
  inline T simd_shuffle(T v, ushort from) { return __sim::shuffle(v, from); } \
  inline T simd_broadcast(T v, ushort from) { return __sim::shuffle(v, from); } \
  inline T simd_broadcast_first(T v) { return __sim::shuffle(v, 0); } \
  inline T simd_shuffle_xor(T v, ushort mask) { return __sim::shuffle(v, __sim::lane() ^ mask); } \
  inline T simd_shuffle_up(T v, ushort by) { return __sim::shuffle(v, __sim::lane() < by ? __sim::lane() : __sim::lane() - by); } \
  inline T simd_shuffle_down(T v, ushort by) { return __sim::shuffle(v, __sim::lane() + by > 31 ? __sim::lane() : __sim::lane() + by); } \
  inline T simd_shuffle_rotate_up(T v, ushort by) { return __sim::shuffle(v, (__sim::lane() - by) & 31); } \
  inline T simd_shuffle_rotate_down(T v, ushort by) { return __sim::shuffle(v, (__sim::lane() + by) & 31); } \
  inline T simd_shuffle_and_fill_up(T v, T fill, ushort by) { T u = simd_shuffle_rotate_up(v, by), f = simd_shuffle_rotate_up(fill, by); return __sim::lane() < by ? f : u; } \
  inline T simd_shuffle_and_fill_down(T v, T fill, ushort by) { T u = simd_shuffle_rotate_down(v, by), f = simd_shuffle_rotate_down(fill, by); return __sim::lane() + by > 31 ? f : u; } \
  inline T quad_broadcast(T v, ushort from) { return __sim::shuffle(v, (__sim::lane() & 28) | (from & 3)); } \
  inline T quad_shuffle(T v, ushort from) { return __sim::shuffle(v, (__sim::lane() & 28) | (from & 3)); } \
  inline T quad_shuffle_xor(T v, ushort mask) { return __sim::shuffle(v, __sim::lane() ^ (mask & 3)); }
#define __SIM_SUMS(T) \
  inline T simd_sum(T v) { return __sim::reduce<__sim::add>(v); } \
  inline T simd_product(T v) { return __sim::reduce<__sim::mul>(v); } \
  inline T simd_min(T v) { return __sim::reduce<__sim::least>(v); } \
  inline T simd_max(T v) { return __sim::reduce<__sim::most>(v); } \
  inline T simd_prefix_inclusive_sum(T v) { return __sim::scan<__sim::add>(v); } \
  inline T simd_prefix_inclusive_product(T v) { return __sim::scan<__sim::mul>(v); } \
  inline T simd_prefix_exclusive_sum(T v) { T s = simd_shuffle_up(__sim::scan<__sim::add>(v), 1); return __sim::lane() == 0 ? (T)0 : s; } \
  inline T simd_prefix_exclusive_product(T v) { T s = simd_shuffle_up(__sim::scan<__sim::mul>(v), 1); return __sim::lane() == 0 ? (T)1 : s; } \
  inline T quad_sum(T v) { v = v + quad_shuffle_xor(v, 2); return v + quad_shuffle_xor(v, 1); } \
  inline T quad_max(T v) { v = max(v, quad_shuffle_xor(v, 2)); return max(v, quad_shuffle_xor(v, 1)); } \
  inline T quad_min(T v) { v = min(v, quad_shuffle_xor(v, 2)); return min(v, quad_shuffle_xor(v, 1)); }
#define __SIM_BITS(T) \
  inline T simd_and(T v) { return __sim::reduce<__sim::bit_and>(v); } \
  inline T simd_or(T v) { return __sim::reduce<__sim::bit_or>(v); } \
  inline T simd_xor(T v) { return __sim::reduce<__sim::bit_xor>(v); }
#define __SIM_WIDTHS(X, T) X(T) X(T##2) X(T##3) X(T##4)
#define __SIM_GROUP(X) \
  __SIM_WIDTHS(X, int) __SIM_WIDTHS(X, uint) __SIM_WIDTHS(X, short) __SIM_WIDTHS(X, ushort) __SIM_WIDTHS(X, char) __SIM_WIDTHS(X, uchar)
__SIM_WIDTHS(__SIM_LANES, float) __SIM_WIDTHS(__SIM_LANES, half) __SIM_GROUP(__SIM_LANES)
__SIM_WIDTHS(__SIM_SUMS, float) __SIM_WIDTHS(__SIM_SUMS, half) __SIM_GROUP(__SIM_SUMS)
__SIM_GROUP(__SIM_BITS)
// A bool would turn into an int.
#define __SIM_NO_BOOL(F) bool F(bool) = delete; bool F(bool, ushort) = delete;
__SIM_NO_BOOL(simd_sum) __SIM_NO_BOOL(simd_product) __SIM_NO_BOOL(simd_min) __SIM_NO_BOOL(simd_max)
__SIM_NO_BOOL(simd_and) __SIM_NO_BOOL(simd_or) __SIM_NO_BOOL(simd_xor) __SIM_NO_BOOL(quad_sum) __SIM_NO_BOOL(quad_min)
__SIM_NO_BOOL(quad_max) __SIM_NO_BOOL(simd_broadcast_first) __SIM_NO_BOOL(simd_broadcast) __SIM_NO_BOOL(simd_shuffle)
__SIM_NO_BOOL(simd_shuffle_xor) __SIM_NO_BOOL(simd_shuffle_up) __SIM_NO_BOOL(simd_shuffle_down)
#undef __SIM_NO_BOOL
#undef __SIM_LANES
#undef __SIM_SUMS
#undef __SIM_BITS
#undef __SIM_GROUP
#undef __SIM_WIDTHS

// A set of lanes; only an explicit cast reveals the bits.
struct simd_vote {
  typedef ulong vote_t;
  explicit simd_vote(vote_t v = 0) : __votes(v) {}
  explicit operator vote_t() const { return __votes; }
  bool all() const { return __votes == 0xffffffffu; }
  bool any() const { return __votes != 0; }
  vote_t __votes;
};
inline simd_vote simd_ballot(bool b) { return simd_vote(__sim::ballot(b)); }
inline simd_vote simd_active_threads_mask() { return simd_ballot(true); }
inline bool simd_all(bool b) { return __sim::ballot(!b) == 0; }
inline bool simd_any(bool b) { return __sim::ballot(b) != 0; }
inline bool simd_is_first() { return __sim::lane() == 0; }
}
