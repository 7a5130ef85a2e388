// The target functions of sim:cuda: what cpu.h takes from the fiber runtime is an instruction here. A simdgroup is a warp.
#pragma once

namespace __sim {
inline uint3 group() { return (uint3)((uint)__nvvm_read_ptx_sreg_ctaid_x(), (uint)__nvvm_read_ptx_sreg_ctaid_y(), (uint)__nvvm_read_ptx_sreg_ctaid_z()); }
inline uint3 groups() { return (uint3)((uint)__nvvm_read_ptx_sreg_nctaid_x(), (uint)__nvvm_read_ptx_sreg_nctaid_y(), (uint)__nvvm_read_ptx_sreg_nctaid_z()); }
inline uint3 threads() { return (uint3)((uint)__nvvm_read_ptx_sreg_ntid_x(), (uint)__nvvm_read_ptx_sreg_ntid_y(), (uint)__nvvm_read_ptx_sreg_ntid_z()); }
inline uint3 position() { return (uint3)((uint)__nvvm_read_ptx_sreg_tid_x(), (uint)__nvvm_read_ptx_sreg_tid_y(), (uint)__nvvm_read_ptx_sreg_tid_z()); }
inline uint index() {
  uint3 p = position(), n = threads();
  return (p.z * n.y + p.y) * n.x + p.x;
}
inline uint lane() { return (uint)__nvvm_read_ptx_sreg_laneid(); }
inline void threadgroup_barrier() { __nvvm_bar_sync(0); }
inline void simdgroup_barrier() { __nvvm_bar_warp_sync(0xffffffffu); }
inline void hold_loads() { __asm__ volatile("// hold loads" ::: "memory"); }  // for holdLoads of ptx_text.go

// The value of another lane, by words.
template <class T> inline T shuffle(T v, uint from) {
  int words[(sizeof(T) + 3) / 4];
  *(thread T*)words = v;
#pragma unroll
  for (uint i = 0; i < (sizeof(T) + 3) / 4; ++i) words[i] = __nvvm_shfl_sync_idx_i32(0xffffffffu, words[i], (int)from, 31);
  return *(thread T*)words;
}
template <class T> inline T butterfly(T v, uint mask) {
  int words[(sizeof(T) + 3) / 4];
  *(thread T*)words = v;
#pragma unroll
  for (uint i = 0; i < (sizeof(T) + 3) / 4; ++i) words[i] = __nvvm_shfl_sync_bfly_i32(0xffffffffu, words[i], (int)mask, 31);
  return *(thread T*)words;
}

// OP::of over all lanes, in the tree of cpu.h: every lane takes part in the same sums as lane 0.
template <class OP, class T> inline T reduce(T v) {
#pragma unroll
  for (uint step = 16; step > 0; step /= 2) v = OP::of(v, butterfly(v, step));
  return v;
}

// OP::of over this lane and those before, in the order of cpu.h.
template <class OP, class T> inline T scan(T v) {
#pragma unroll
  for (uint step = 1; step < 32; step *= 2) {
    T before = shuffle(v, (lane() - step) & 31);
    if (lane() >= step) v = OP::of(before, v);
  }
  return v;
}

inline uint ballot(bool b) { return (uint)__nvvm_vote_ballot_sync(0xffffffffu, b); }
}

#include "ptx_atomics.h"
