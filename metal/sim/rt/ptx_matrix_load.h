// Blocks of 16-bit fragments from threadgroup memory by the GPU's own loads, four 8x8 matrices each (PTX ISA, "ldmatrix"):
// where rows begin at multiples of 16 bytes. They fill what an operand of multiply_joined reads of a fragment, and nothing else.
#pragma once

namespace __sim {
// Lane l gives the address of row l%8 of matrix l/8; turned matrices come as B wants them of memory with its rows in it.
template <class T> inline uint row_address(const threadgroup T* p) { return (uint)(ulong)p; }
inline void load_four(thread uint* w, uint address) {
  __asm__ __volatile__("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
inline void load_four_turned(thread uint* w, uint address) {
  __asm__ __volatile__("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}

// a[2i+l], the matrix of rows 8i and columns 8l.
template <class T> inline void load_left(thread metal::simdgroup_matrix<T, 8, 8>* a, const threadgroup T* p, ulong stride) {
  uint w[4], m = lane() / 8;
  load_four(w, row_address(p + (m / 2 * 8 + lane() % 8) * stride + m % 2 * 8));
#pragma unroll
  for (uint i = 0; i < 4; ++i) a[i].__f.e = pair_of<T>(w[i]);
}
// b[2l+j], the matrix of rows 8l and columns 8j.
template <class T> inline void load_right(thread metal::simdgroup_matrix<T, 8, 8>* b, const threadgroup T* p, ulong stride) {
  uint w[4], m = lane() / 8;
  load_four_turned(w, row_address(p + (m / 2 * 8 + lane() % 8) * stride + m % 2 * 8));
#pragma unroll
  for (uint i = 0; i < 4; ++i) b[i].__f.t = pair_of<T>(w[i]);
}
// b[2l+j] of the transpose of what is in memory: the matrix of rows 8j and columns 8l there.
template <class T> inline void load_right_turned(thread metal::simdgroup_matrix<T, 8, 8>* b, const threadgroup T* p, ulong stride) {
  uint w[4], m = lane() / 8;
  load_four(w, row_address(p + (m % 2 * 8 + lane() % 8) * stride + m / 2 * 8));
#pragma unroll
  for (uint i = 0; i < 4; ++i) b[i].__f.t = pair_of<T>(w[i]);
}
}
#define __SIM_LOAD_LEFT(a, p, stride) __sim::load_left(a, p, stride)
#define __SIM_LOAD_RIGHT(b, p, stride) __sim::load_right(b, p, stride)
#define __SIM_LOAD_RIGHT_TURNED(b, p, stride) __sim::load_right_turned(b, p, stride)
