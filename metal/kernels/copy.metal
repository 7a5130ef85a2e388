// Plain copies, for memory that the CPU can't reach. A thread takes 4 pieces, a grid's width apart.

struct CopyParams {
  uint count_low;  // pieces, 64 bits
  uint count_high;
  uint threads;
};

template <typename T>
inline void copy_pieces(device T* to, device const T* from, constant CopyParams& p, uint thread_id) {
  const ulong count = ulong(p.count_high) << 32 | ulong(p.count_low);
  ulong i = thread_id;
#pragma unroll
  for (uint k = 0; k < 4; k++) {
    if (i < count) to[i] = from[i];
    i += p.threads;
  }
}

kernel void copy_16(
    device uint4* to [[buffer(0)]],
    device const uint4* from [[buffer(1)]],
    constant CopyParams& p [[buffer(2)]],
    uint thread_id [[thread_position_in_grid]]) {
  copy_pieces<uint4>(to, from, p, thread_id);
}

kernel void copy_4(
    device uint* to [[buffer(0)]],
    device const uint* from [[buffer(1)]],
    constant CopyParams& p [[buffer(2)]],
    uint thread_id [[thread_position_in_grid]]) {
  copy_pieces<uint>(to, from, p, thread_id);
}
