// Rows of activations times a matrix: what the kernels of prefill share. A threadgroup of 4 simdgroups computes a tile of
// 8R rows by 32C outputs, each simdgroup 8C of the outputs. Over and over it stages 64 inputs of the rows and of the
// weights, rebuilt as numbers of type T, in threadgroup memory, and multiplies. The sum of an output runs over its inputs
// in one order, whatever R, C, the tile and the other rows are.
//
// A higher tile rebuilds weights less often, but rows that are missing are wasted; a larger one loads less from threadgroup
// memory for each product, but takes registers and threadgroup memory, and so leaves a core fewer threadgroups to go on with
// while one waits.
//
// Staged rows are 16 bytes farther apart than they are long: eight of them, read 16 bytes each, then lie in different banks.

constant constexpr uint TILE_THREADS = 128;
constant constexpr uint TILE_DEPTH = 64;

// acc[i][j] += the sum over l of a[i][l] * b[l][j]: M by N matrices, K deep, M and K even. The simulator's GPU has larger
// multiplications, which it joins these into.
template <class T, int M, int N, int K>
INLINE void multiply_block(thread simdgroup_float8x8* acc, thread const simdgroup_matrix<T, 8, 8>* a,
                           thread const simdgroup_matrix<T, 8, 8>* b) {
#ifdef __SIM_MULTIPLY_BLOCK
  __SIM_MULTIPLY_BLOCK(acc, a, b, M, N, K)
#else
#pragma unroll
  for (int l = 0; l < K; l++) {
#pragma unroll
    for (int i = 0; i < M; i++) {
#pragma unroll
      for (int j = 0; j < N; j++) {
        simdgroup_multiply_accumulate(acc[i * N + j], a[i * K + l], b[l * N + j], acc[i * N + j]);
      }
    }
  }
#endif
}

// a[2i+l], the matrix of rows 8i and columns 8l from p on.
template <class T>
INLINE void load_block(thread simdgroup_matrix<T, 8, 8>* a, threadgroup const T* p, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(a[i], p + i / 2 * 8 * stride + i % 2 * 8, stride);
}

// b[2l+j] of the transpose: the matrix of rows 8j and columns 8l from p on.
template <class T>
INLINE void load_turned_block(thread simdgroup_matrix<T, 8, 8>* b, threadgroup const T* p, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(b[i], p + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0, 0), true);
}

#ifdef __SIM_LOAD_LEFT  // four at once, where rows begin at multiples of 16 bytes
INLINE void load_block(thread simdgroup_half8x8* a, threadgroup const half* p, uint stride) { __SIM_LOAD_LEFT(a, p, stride); }
INLINE void load_turned_block(thread simdgroup_half8x8* b, threadgroup const half* p, uint stride) {
  __SIM_LOAD_RIGHT_TURNED(b, p, stride);
}
#endif

// Sizes of a tile; strides are from row to row of what is staged, in elements.
template <class T, int R, int C> struct Tile {
  static constexpr constant uint rows = 8 * R;
  static constexpr constant uint outputs = 32 * C;
  static constexpr constant uint stride = TILE_DEPTH + 16 / sizeof(T);
  static constexpr constant uint memory = (rows + outputs) * stride * sizeof(T) / 16;  // 16 bytes
};

// Two neighbours in bf16.
INLINE uint packed(float a, float b) { return as_type<uint>(bfloat2(float2(a, b))); }

// x within what a half holds; NaN stays.
INLINE float saturated(float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; }

// Two neighbours in f16.
INLINE uint packed_half(float a, float b) { return as_type<uint>(half2(float2(saturated(a), saturated(b)))); }

INLINE void put_eight(threadgroup half* at, thread const float* v) {
  *(threadgroup uint4*)at = uint4(packed_half(v[0], v[1]), packed_half(v[2], v[3]), packed_half(v[4], v[5]), packed_half(v[6], v[7]));
}

INLINE void put_eight(threadgroup float* at, thread const float* v) {
  ((threadgroup float4*)at)[0] = float4(v[0], v[1], v[2], v[3]);
  ((threadgroup float4*)at)[1] = float4(v[4], v[5], v[6], v[7]);
}

// Code i of a unit, plus 256: a float of this size has a place for 8 bits right below its exponent, so no conversion is
// needed.
template <int B>
INLINE float code_above_256(thread const uint* w, int i) {
  const int word = i * B / 32, place = i * B % 32;
  const uint mask = ((1u << B) - 1u) << 15;
  uint code;
  if (place + B > 32) {
    code = (w[word] >> place | w[(i * B + B - 1) / 32] << (32 - place)) << 15;
  } else {
    code = place < 15 ? w[word] << (15 - place) : w[word] >> (place - 15);
  }
  return as_type<float>(0x43800000u | (code & mask));
}

// 32 weights of one row between their load and their use: words of codes and their scale and bias, or plain floats.
struct HeldWeights {
  uint words[8];
  float2 pair;
  float plain[32];
};

// A thread's row of weights.
struct WeightRow {
  device const uchar* codes;
  device const uchar* pairs;
};

INLINE WeightRow weight_row(Weights w, uint row) {
  WeightRow r;
  r.codes = w.codes + ulong(row) * w.row_bytes;
  r.pairs = w.pairs + ulong(row) * w.pair_bytes;
  return r;
}

// Loads the 32 weights from column on, a multiple of 32; those beyond cols are zeros.
INLINE void hold(thread HeldWeights& h, WeightRow row, Coding c, uint column, uint cols) {
  if (c.bits == 0) {
#pragma unroll
    for (uint i = 0; i < 32; i += 8) {
      if (column + i < cols) {
        load_elements(h.plain + i, row.codes, column + i, c.type);
      } else {
#pragma unroll
        for (uint j = 0; j < 8; j++) h.plain[i + j] = 0.0f;
      }
    }
    return;
  }
  if (column >= cols) {
    h.pair = float2(0.0f);
    return;
  }
  device const uchar* at = row.codes + column / 8 * c.bits;
  if (c.bits == 4) load_words<4>(h.words, at);
  else if (c.bits == 8) load_words<8>(h.words, at);
  else if (c.bits == 6) load_words<6>(h.words, at);
  else if (c.bits == 5) load_words<5>(h.words, at);
  else if (c.bits == 3) load_words<3>(h.words, at);
  else load_words<2>(h.words, at);
  h.pair = load_pair(row.pairs, column / c.group, c.type);
}

// The 256 goes with the bias, exactly where scales have few digits, else before the product.
template <class T, int B>
INLINE void rebuild_codes(threadgroup T* to, thread const HeldWeights& h, uint type) {
  const float above = type == F32 ? 256.0f : 0.0f;
  const float offset = type == F32 ? h.pair.y : h.pair.y - 256.0f * h.pair.x;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = fma(h.pair.x, code_above_256<B>(h.words, i + j) - above, offset);
    put_eight(to + i, v);
  }
}

// Codes of 4 bits whose scales have at most a half's digits are rebuilt two at a time: or'd into 1024, a half's last place is
// 1. Scales under 2^-17 lose digits, but then all their weights are under 2^-13, where a half has no more of them either.
template <>
INLINE void rebuild_codes<half, 4>(threadgroup half* to, thread const HeldWeights& h, uint type) {
  if (type == F32) {
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      float v[8];
#pragma unroll
      for (int j = 0; j < 8; j++) v[j] = fma(h.pair.x, code_above_256<4>(h.words, i + j) - 256.0f, h.pair.y);
      put_eight(to + i, v);
    }
    return;
  }
  const half2 scale = half2(half(h.pair.x), half(h.pair.x)), bias = half2(half(h.pair.y), half(h.pair.y));
  const half2 above = half2(1024.0h, 1024.0h);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    half2 v[4];  // codes j and j+4
#pragma unroll
    for (int j = 0; j < 4; j++) {
      v[j] = fma(as_type<half2>((h.words[i] >> (4 * j) & 0x000f000fu) | 0x64006400u) - above, scale, bias);
    }
    *(threadgroup uint4*)(to + 8 * i) = uint4(as_type<uint>(half2(v[0].x, v[1].x)), as_type<uint>(half2(v[2].x, v[3].x)),
                                              as_type<uint>(half2(v[0].y, v[1].y)), as_type<uint>(half2(v[2].y, v[3].y)));
  }
}

// Stores the 32 weights as numbers of type T.
template <class T>
INLINE void rebuild(threadgroup T* to, thread const HeldWeights& h, Coding c) {
  if (c.bits == 4) rebuild_codes<T, 4>(to, h, c.type);
  else if (c.bits == 8) rebuild_codes<T, 8>(to, h, c.type);
  else if (c.bits == 6) rebuild_codes<T, 6>(to, h, c.type);
  else if (c.bits == 5) rebuild_codes<T, 5>(to, h, c.type);
  else if (c.bits == 3) rebuild_codes<T, 3>(to, h, c.type);
  else if (c.bits == 2) rebuild_codes<T, 2>(to, h, c.type);
  else {
#pragma unroll
    for (int i = 0; i < 32; i += 8) put_eight(to + i, h.plain + i);
  }
}

// Eight inputs of each of a thread's rows, as they are stored: rows self/8, self/8 + 16, ... of the tile.
template <class T, int R>
INLINE void hold_rows(thread uint4* v, device const T* x, thread const uint* rows, uint live, uint cols, uint column,
                      uint self) {
#pragma unroll
  for (uint i = 0; i < R / 2; i++) {
#pragma unroll
    for (uint j = 0; j < sizeof(T) / 2; j++) {
      v[i * (sizeof(T) / 2) + j] = uint4(0);
      if (self / 8 + 16 * i < live && column < cols) {
        v[i * (sizeof(T) / 2) + j] = ((device const uint4*)(x + ulong(rows[i]) * cols + column))[j];
      }
    }
  }
}

template <class T, int R>
INLINE void stage_rows(threadgroup T* to, thread const uint4* v, uint self) {
  constexpr uint stride = Tile<T, R, 2>::stride;
  threadgroup T* at = to + self / 8 * stride + self % 8 * 8;
#pragma unroll
  for (uint i = 0; i < R / 2; i++) {
#pragma unroll
    for (uint j = 0; j < sizeof(T) / 2; j++) {
      ((threadgroup uint4*)(at + 16 * i * stride))[j] = v[i * (sizeof(T) / 2) + j];
    }
  }
}

// Where the products of 8 rows, the i-th, and a simdgroup's j-th 8 outputs are among a tile's: in blocks of two by two.
template <int C> INLINE uint block_of(uint i, uint j) { return (i / 2 * (C / 2) + j / 2) * 4 + i % 2 * 2 + j % 2; }

// Multiplies what is staged; ALL says that no row of the tile is missing, else rows beyond live cost nothing from 16 to 16.
template <class T, int R, int C, bool ALL>
INLINE void multiply_staged(thread simdgroup_float8x8* acc, threadgroup const T* a, threadgroup const T* b, uint live) {
  constexpr uint stride = Tile<T, R, C>::stride;
#pragma unroll
  for (uint k = 0; k < TILE_DEPTH; k += 16) {
    simdgroup_matrix<T, 8, 8> right[2 * C];
#pragma unroll
    for (uint j = 0; j < C; j += 2) load_turned_block(right + 2 * j, b + j * 8 * stride + k, stride);
#pragma unroll
    for (uint i = 0; i < R; i += 2) {
      if (ALL || i * 8 < live) {
        simdgroup_matrix<T, 8, 8> left[4];
        load_block(left, a + i * 8 * stride + k, stride);
#pragma unroll
        for (uint j = 0; j < C; j += 2) multiply_block<T, 2, 2, 2>(acc + block_of<C>(i, j), left, right + 2 * j);
      }
    }
  }
}

// The products of a tile, in the order of block_of. A thread stages inputs of rows[0..R/2) of x and weights of rows
// w[0..C/2) of the matrix, outputs self/2 and self/2 + 64 of the tile. live rows exist.
template <class T, int R, int C>
INLINE void multiply_tile(thread simdgroup_float8x8* acc, threadgroup float4* memory, device const T* x,
                          thread const uint* rows, uint live, thread const WeightRow* w, Coding coding, uint cols,
                          uint self, uint simd) {
  constexpr uint stride = Tile<T, R, C>::stride;
  threadgroup T* a = (threadgroup T*)memory;
  threadgroup T* b = a + Tile<T, R, C>::rows * stride;
  threadgroup T* rebuilt = b + self / 2 * stride + self % 2 * 32;
#pragma unroll
  for (uint i = 0; i < R * C; i++) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

  uint4 held[R / 2 * (sizeof(T) / 2)];
  HeldWeights weights[C / 2];
  hold_rows<T, R>(held, x, rows, live, cols, self % 8 * 8, self);
#pragma unroll
  for (uint i = 0; i < C / 2; i++) hold(weights[i], w[i], coding, self % 2 * 32, cols);
  for (uint k = 0; k < cols; k += TILE_DEPTH) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage_rows<T, R>(a, held, self);
#pragma unroll
    for (uint i = 0; i < C / 2; i++) rebuild<T>(rebuilt + i * 64 * stride, weights[i], coding);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (k + TILE_DEPTH < cols) {  // these loads are on their way while the matrices are multiplied
      hold_rows<T, R>(held, x, rows, live, cols, k + TILE_DEPTH + self % 8 * 8, self);
#pragma unroll
      for (uint i = 0; i < C / 2; i++) hold(weights[i], w[i], coding, k + TILE_DEPTH + self % 2 * 32, cols);
    }
    if (live == 8 * R) multiply_staged<T, R, C, true>(acc, a, b + simd * (8 * C) * stride, live);
    else multiply_staged<T, R, C, false>(acc, a, b + simd * (8 * C) * stride, live);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);  // memory is free for the products
}

// Row of the matrix that yields output n of a tile: of gates and ups, alternately 8 of each, so that a simdgroup has both.
template <int C>
INLINE uint paired_row(uint tile, uint n, uint inner) {
  const uint i = min(tile * (16 * C) + n / 16 * 8 + n % 8, inner - 1);
  return n % 16 < 8 ? i : inner + i;
}

constant constexpr uint END_F16 = 0;
constant constexpr uint END_F32 = 1;
constant constexpr uint END_SWIGLU = 2;    // f16
constant constexpr uint END_RESIDUAL = 3;  // adds to the floats that are there

// Two neighbouring outputs of SwiGLU for each lane, of 8 rows by 8 gates and as many ups, to out[row][stride].
INLINE void store_swiglu(threadgroup const float* at, device uchar* out, uint inner, ulong row, uint column, uint lane) {
  const float2 g = ((threadgroup const float2*)at)[lane], u = ((threadgroup const float2*)at)[lane + 32];
  if (column < inner) *(device uint*)(out + (row * inner + column) * 2) = packed_half(silu(g.x) * u.x, silu(g.y) * u.y);
}

// Four neighbouring outputs of each lane to out[row][stride], of which outputs are written.
INLINE void store_four(float4 v, device uchar* out, uint end, uint outputs, uint stride, ulong row, uint column) {
  if (column >= outputs) return;
  const ulong place = row * stride + column;
  if ((outputs | stride) % 4 == 0) {
    if (end == END_F16) *(device uint2*)(out + place * 2) = uint2(packed_half(v.x, v.y), packed_half(v.z, v.w));
    else if (end == END_F32) *(device float4*)(out + place * 4) = v;
    else *(device float4*)(out + place * 4) += v;
    return;
  }
  const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (uint i = 0; i < 4; i++) {
    if (column + i >= outputs) return;
    if (end == END_F16) ((device half*)out)[place + i] = half(saturated(values[i]));
    else if (end == END_F32) ((device float*)out)[place + i] = values[i];
    else ((device float*)out)[place + i] += values[i];
  }
}

// Writes a simdgroup's products for rows below live, by way of threadgroup memory: of SwiGLU half as many outputs as the
// matrix has, else all, to rows stride apart.
template <int R, int C>
INLINE void store_tile(thread const simdgroup_float8x8* acc, threadgroup float4* memory, device uchar* out, uint end,
                       uint outputs, uint stride, uint live, uint tile, uint simd, uint lane) {
  threadgroup float* at = (threadgroup float*)memory + simd * (64 * C);
#pragma unroll
  for (uint i = 0; i < R; i++) {
    if (i * 8 >= live) return;
#pragma unroll
    for (uint j = 0; j < C; j++) simdgroup_store(acc[block_of<C>(i, j)], at + j * 64, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint j = 0; j < C; j += 2) {
      if (end == END_SWIGLU) {
        const uint row = i * 8 + lane / 4, column = (tile * 4 + simd) * (4 * C) + j * 4 + lane % 4 * 2;
        if (row < live) store_swiglu(at + j * 64, out, outputs / 2, row, column, lane);
      } else {
        const uint row = i * 8 + lane % 16 / 2, column = (tile * 4 + simd) * (8 * C) + j * 8 + lane / 16 * 8 + lane % 2 * 4;
        const float4 v = ((threadgroup const float4*)(at + j * 64))[lane];
        if (row < live) store_four(v, out, end, outputs, stride, row, column);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);  // before the next rows take their place
  }
}
