// Dot products of weight rows with a vector in lane order (common.metal), in fp32. The work is cut into units: 32 columns of
// a quantised row, whose codes fill exactly `bits` words, or 8 columns of a plain one. A lane takes every step-th unit of
// several rows, so neighbouring lanes load neighbouring 16 bytes, and the vector is loaded once for all rows.

// How a matrix is stored. Kernels fill it from function constants: after inlining only one case is left.
struct Coding {
  uint bits;   // 0: not quantised
  uint group;  // columns of a scale and bias
  uint type;   // of scale and bias, or of the elements
};

// Where the rows of a matrix lie in its buffer argument: the host's placed.
struct Placed {
  uint codes;  // multiples of 16 bytes
  uint pairs;
  uint row_bytes;   // from row to row of the codes
  uint pair_bytes;  // from row to row of the pairs
};

struct Weights {
  device const uchar* codes;
  device const uchar* pairs;
  uint row_bytes;
  uint pair_bytes;
};

INLINE Weights weights_at(device const uchar* base, constant Placed& p) {
  Weights w;
  w.codes = base + ulong(p.codes) * 16;
  w.pairs = base + ulong(p.pairs) * 16;
  w.row_bytes = p.row_bytes;
  w.pair_bytes = p.pair_bytes;
  return w;
}

INLINE float2 load_pair(device const uchar* pairs, uint index, uint type) {
  if (type == F32) {
    device const float* p = (device const float*)pairs + index * 2;
    return float2(p[0], p[1]);
  }
  uint pair = ((device const uint*)pairs)[index];
  if (type == F16) {
    half2 h = as_type<half2>(pair);
    return float2(float(h.x), float(h.y));
  }
  return float2(low_bf16(pair), high_bf16(pair));
}

// The words of a unit, by the widest loads that its alignment allows.
template <int B>
INLINE void load_words(thread uint* w, device const uchar* p) {
  if (B % 4 == 0) {
#pragma unroll
    for (int i = 0; i + 3 < B; i += 4) {
      uint4 v = *(device const uint4*)(p + 4 * i);
      w[i] = v.x;
      w[i + 1] = v.y;
      w[i + 2] = v.z;
      w[i + 3] = v.w;
    }
  } else if (B % 2 == 0) {
#pragma unroll
    for (int i = 0; i + 1 < B; i += 2) {
      uint2 v = *(device const uint2*)(p + 4 * i);
      w[i] = v.x;
      w[i + 1] = v.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < B; i++) w[i] = ((device const uint*)p)[i];
  }
}

// COUNT = 8 or 32 columns of a vector in lane order, from a multiple of COUNT on.
template <int COUNT>
INLINE void load_columns(thread float* x, device const float* vector, uint first) {
#pragma unroll
  for (int i = 0; i < COUNT; i += 4) {
    const float4 v = *(device const float4*)(vector + lane_order(first) + 8 * i);
    x[i] = v.x;
    x[i + 1] = v.y;
    x[i + 2] = v.z;
    x[i + 3] = v.w;
  }
}

// A code as a float without a conversion, which takes as long as several other instructions: its bits, left at their place,
// become those of the mantissa of 2^(23-place), where a code's step is worth 1; then 2^(23-place) is taken off again. Both are
// exact, and what remains is the code. place + bits must be at most 23.
INLINE float float_of(uint word, int bits, int place) {
  const uint mask = ((1u << bits) - 1u) << place;
  return as_type<float>((word & mask) | uint(150 - place) << 23) - float(1u << (23 - place));
}

// Code i of a unit of B-bit codes; i is known when loops are unrolled. Where no code straddles two words, one shift serves
// the codes of a word's upper half, which Apple's GPUs can name without one.
template <int B>
INLINE float code_of(thread const uint* w, int i) {
  const int word = i * B / 32, place = i * B % 32;
  if (32 % B == 0) return float_of(place < 16 ? w[word] : w[word] >> 16, B, place % 16);
  uint code = w[word] >> place;
  if (place + B > 32) code |= w[(i * B + B - 1) / 32] << (32 - place);
  return float_of(code, B, 0);
}

// sum of x[i] * code i over a unit.
template <int B>
INLINE float dot_codes(thread const uint* w, thread const float* x) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 32; i++) d[i & 3] = fma(x[i], code_of<B>(w, i), d[i & 3]);
  return (d[0] + d[1]) + (d[2] + d[3]);
}

// The words and the pairs of unit u of R rows.
template <int B, int R>
INLINE void load_unit(thread uint* w, thread float2* pair, Weights m, Coding c, thread const uint* rows, uint u) {
#pragma unroll
  for (int r = 0; r < R; r++) load_words<B>(w + r * B, m.codes + ulong(rows[r]) * m.row_bytes + u * (4 * B));
#pragma unroll
  for (int r = 0; r < R; r++) pair[r] = load_pair(m.pairs + ulong(rows[r]) * m.pair_bytes, u * 32 / c.group, c.type);
}

// Adds the shares of unit u.
template <int B, int R>
INLINE void add_unit(thread float* acc, thread const uint* w, thread const float2* pair, device const float* x, uint u) {
  float v[32];
  load_columns<32>(v, x, u * 32);
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 32; i++) sums[i & 3] += v[i];
  const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (int r = 0; r < R; r++) acc[r] = fma(pair[r].x, dot_codes<B>(w + r * B, v), fma(pair[r].y, sum, acc[r]));
}

// All loads of weights come first: a compiler that saves registers would move each to where it is needed, and then they wait
// for each other. The barrier keeps it from that, so the loop is the same for all lanes: those that have no unit left load the
// last one again.
template <int B, int R>
INLINE void add_quantised(thread float* acc, Weights m, Coding c, thread const uint* rows, device const float* x,
                          uint first, uint step, uint count) {
  for (uint begin = 0; begin < count; begin += step) {
    const uint u = begin + first;
    uint w[R * B];
    float2 pair[R];
    load_unit<B, R>(w, pair, m, c, rows, min(u, count - 1));
    simdgroup_barrier(mem_flags::mem_none);
    if (u < count) add_unit<B, R>(acc, w, pair, x, u);
  }
}

// One element of a plain row.
INLINE float load_element(device const uchar* row, uint column, uint type) {
  if (type == F32) return ((device const float*)row)[column];
  if (type == F16) return float(((device const half*)row)[column]);
  return float(((device const bfloat*)row)[column]);
}

// Eight elements of a plain row, from a multiple of 8 on.
INLINE void load_elements(thread float* w, device const uchar* row, uint column, uint type) {
  if (type != F32) {
    uint4 v = *(device const uint4*)(row + column * 2);
    uint words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const half2 h = as_type<half2>(words[i]);
      w[2 * i] = type == F16 ? float(h.x) : low_bf16(words[i]);
      w[2 * i + 1] = type == F16 ? float(h.y) : high_bf16(words[i]);
    }
    return;
  }
  float4 a = *(device const float4*)(row + column * 4);
  float4 b = *(device const float4*)(row + column * 4 + 16);
  w[0] = a.x;
  w[1] = a.y;
  w[2] = a.z;
  w[3] = a.w;
  w[4] = b.x;
  w[5] = b.y;
  w[6] = b.z;
  w[7] = b.w;
}

template <int R>
INLINE void add_plain(thread float* acc, Weights m, Coding c, thread const uint* rows, device const float* x, uint cols,
                      uint first, uint step) {
  uint u = first;
  for (; u < cols / 8; u += step) {
    float w[R][8], v[8];
#pragma unroll
    for (int r = 0; r < R; r++) load_elements(w[r], m.codes + ulong(rows[r]) * m.row_bytes, u * 8, c.type);
    load_columns<8>(v, x, u * 8);
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
      for (int i = 0; i < 8; i++) acc[r] = fma(w[r][i], v[i], acc[r]);
    }
  }
  if (u * 8 < cols) {  // the lane whose unit is the partial one
    for (uint i = u * 8; i < cols; i++) {
#pragma unroll
      for (int r = 0; r < R; r++) {
        acc[r] = fma(load_element(m.codes + ulong(rows[r]) * m.row_bytes, i, c.type), x[lane_order(i)], acc[r]);
      }
    }
  }
}

// Adds to acc[r], for each of R rows, this lane's share of the dot product of row rows[r] with x[0..cols): the units
// first, first+step, ... of all that the row has. Sums of the shares of all lanes (simd_sum) are the
// products. Rows beyond the matrix must be replaced by ones inside. All lanes of the simdgroup come here together, with the same
// m, cols and step.
template <int R>
INLINE void add_dots(thread float* acc, Weights m, Coding c, thread const uint* rows, device const float* x, uint cols,
                     uint first, uint step) {
  const uint count = cols / 32;
  if (c.bits == 4) add_quantised<4, R>(acc, m, c, rows, x, first, step, count);
  else if (c.bits == 8) add_quantised<8, R>(acc, m, c, rows, x, first, step, count);
  else if (c.bits == 6) add_quantised<6, R>(acc, m, c, rows, x, first, step, count);
  else if (c.bits == 5) add_quantised<5, R>(acc, m, c, rows, x, first, step, count);
  else if (c.bits == 3) add_quantised<3, R>(acc, m, c, rows, x, first, step, count);
  else if (c.bits == 2) add_quantised<2, R>(acc, m, c, rows, x, first, step, count);
  else add_plain<R>(acc, m, c, rows, x, cols, first, step);
}

// Lanes apart lanes from each other exchange values: of 2N, a lane keeps the sums of N.
template <int N>
INLINE void exchange(thread float* v, uint lane, uint apart) {
  const bool upper = (lane & apart) != 0;
#pragma unroll
  for (int i = 0; i < N; i++) {
    const float low = v[i], high = v[i + N];  // by value: a choice of places would keep v in memory
    v[i] = (upper ? high : low) + simd_shuffle_xor(upper ? low : high, ushort(apart));
  }
}

// The sums over all lanes of R values of each: lane l gets that of value l / (32/R). This takes far fewer shuffles than R
// times simd_sum.
template <int R>
INLINE float sum_rows(thread float* v, uint lane) {
  if (R == 8) {
    exchange<4>(v, lane, 16);
    exchange<2>(v, lane, 8);
    exchange<1>(v, lane, 4);
  } else if (R == 4) {
    exchange<2>(v, lane, 16);
    exchange<1>(v, lane, 8);
  } else if (R == 2) {
    exchange<1>(v, lane, 16);
  }
  float sum = v[0];
  if (R < 2) sum += simd_shuffle_xor(sum, 16);
  if (R < 4) sum += simd_shuffle_xor(sum, 8);
  if (R < 8) sum += simd_shuffle_xor(sum, 4);
  sum += simd_shuffle_xor(sum, 2);
  return sum + simd_shuffle_xor(sum, 1);
}
