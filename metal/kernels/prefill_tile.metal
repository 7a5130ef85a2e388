// Rows of activations times a matrix: what the kernels of prefill share. A threadgroup of 4 simdgroups computes a tile of
// 8R rows by 64 outputs, each simdgroup 16 of the outputs. Over and over it stages 64 inputs of the rows and of the
// weights, rebuilt as numbers of type T, in threadgroup memory, and multiplies. The sum of an output runs over its inputs
// in one order, whatever R, the tile and the other rows are.
//
// Staged, a column block of 8 inputs holds 8 of each row, one row after the other, so an 8x8 matrix is 64 neighbours. The
// blocks are 8 elements farther apart than that: threads that store to different ones then hit different banks.

constant constexpr uint TILE_THREADS = 128;
constant constexpr uint TILE_OUTPUTS = 64;
constant constexpr uint TILE_DEPTH = 64;
constant constexpr uint TILE_PAIRS = TILE_OUTPUTS / 2;           // outputs of a tile of gates and ups
constant constexpr uint TILE_BLOCK = TILE_OUTPUTS * 8 + 8;       // elements of a column block of weights
constant constexpr uint TILE_WEIGHTS = TILE_DEPTH / 8 * TILE_BLOCK;  // elements of staged weights

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

// The threadgroup memory of a tile in 16 bytes; it holds the outputs, too, when the inputs are done.
template <class T, int R> struct TileSize {
  static constexpr constant uint rows = TILE_DEPTH / 8 * (R * 64 + 8);
  static constexpr constant uint staged = (rows + TILE_WEIGHTS) * sizeof(T) / 16;
  static constexpr constant uint outputs = R * 8 * TILE_OUTPUTS / 4;
  static constexpr constant uint most = staged > outputs ? staged : outputs;
};

// Two neighbours, as numbers of 16 bits, or as they are.
INLINE uint packed(float a, float b) { return as_type<uint>(bfloat2(float2(a, b))); }

INLINE void put_eight(threadgroup bfloat* at, thread const float* v) {
  *(threadgroup uint4*)at = uint4(packed(v[0], v[1]), packed(v[2], v[3]), packed(v[4], v[5]), packed(v[6], v[7]));
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
    put_eight(to + i / 8 * TILE_BLOCK, v);
  }
}

// Stores the 32 weights as numbers of type T, to the place of the first in threadgroup memory.
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
    for (int i = 0; i < 32; i += 8) put_eight(to + i / 8 * TILE_BLOCK, h.plain + i);
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
  threadgroup T* at = to + self % 8 * (R * 64 + 8) + self / 8 * 8;
#pragma unroll
  for (uint i = 0; i < R / 2; i++) {
#pragma unroll
    for (uint j = 0; j < sizeof(T) / 2; j++) {
      ((threadgroup uint4*)(at + 128 * i))[j] = v[i * (sizeof(T) / 2) + j];
    }
  }
}

// Multiplies what is staged; ALL says that no row of the tile is missing, else rows beyond live cost nothing from 16 to 16.
template <class T, int R, bool ALL>
INLINE void multiply_staged(thread simdgroup_float8x8* acc, threadgroup const T* a, threadgroup const T* b, uint live) {
#pragma unroll
  for (uint k = 0; k < TILE_DEPTH / 8; k += 2) {
    simdgroup_matrix<T, 8, 8> right[4];
#pragma unroll
    for (uint l = 0; l < 4; l++) {
      simdgroup_load(right[l], b + (k + l / 2) * TILE_BLOCK + l % 2 * 64, 8, ulong2(0, 0), true);
    }
#pragma unroll
    for (uint i = 0; i < R; i += 2) {
      if (ALL || i * 8 < live) {
        simdgroup_matrix<T, 8, 8> left[4];
#pragma unroll
        for (uint l = 0; l < 4; l++) simdgroup_load(left[l], a + (k + l % 2) * (R * 64 + 8) + (i + l / 2) * 64, 8);
        multiply_block<T, 2, 2, 2>(acc + 2 * i, left, right);
      }
    }
  }
}

// The products of a tile: acc[2i] and acc[2i+1] are the first and the second 8 of a simdgroup's outputs for rows 8i to
// 8i+7. A thread stages inputs of rows[0..R/2) of x and weights of row w of the matrix, output self/2 of the tile. live rows
// exist.
template <class T, int R>
INLINE void multiply_tile(thread simdgroup_float8x8* acc, threadgroup float4* memory, device const T* x,
                          thread const uint* rows, uint live, WeightRow w, Coding coding, uint cols, uint self, uint simd) {
  threadgroup T* a = (threadgroup T*)memory;
  threadgroup T* b = a + TileSize<T, R>::rows;
  threadgroup T* rebuilt = b + self % 2 * (4 * TILE_BLOCK) + self / 2 * 8;
#pragma unroll
  for (uint i = 0; i < 2 * R; i++) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

  uint4 held[R / 2 * (sizeof(T) / 2)];
  HeldWeights weights;
  hold_rows<T, R>(held, x, rows, live, cols, self % 8 * 8, self);
  hold(weights, w, coding, self % 2 * 32, cols);
  for (uint k = 0; k < cols; k += TILE_DEPTH) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage_rows<T, R>(a, held, self);
    rebuild<T>(rebuilt, weights, coding);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (k + TILE_DEPTH < cols) {  // these loads are on their way while the matrices are multiplied
      hold_rows<T, R>(held, x, rows, live, cols, k + TILE_DEPTH + self % 8 * 8, self);
      hold(weights, w, coding, k + TILE_DEPTH + self % 2 * 32, cols);
    }
    if (live == 8 * R) multiply_staged<T, R, true>(acc, a, b + simd * 128, live);
    else multiply_staged<T, R, false>(acc, a, b + simd * 128, live);
  }
}

// Puts a simdgroup's products in threadgroup memory and returns its place: matrices of 64 floats in the order of acc.
template <int R>
INLINE threadgroup float* spill_tile(thread const simdgroup_float8x8* acc, threadgroup float4* memory, uint simd) {
  threadgroup float* at = (threadgroup float*)memory + simd * (R * 128);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // the last multiplication has read its operands
#pragma unroll
  for (uint i = 0; i < 2 * R; i++) simdgroup_store(acc[i], at + i * 64, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  return at;
}

// Row of the matrix that yields output n of a tile: of gates and ups, alternately 8 of each, so that a simdgroup has both.
INLINE uint paired_row(uint tile, uint n, uint inner) {
  const uint i = min(tile * TILE_PAIRS + n / 16 * 8 + n % 8, inner - 1);
  return n % 16 < 8 ? i : inner + i;
}

// silu(gate) * up of a simdgroup's products, for rows below live, to out[row][inner], a multiple of 2.
template <int R>
INLINE void store_swiglu(threadgroup const float* at, device bfloat* out, uint inner, uint live, uint tile, uint simd,
                         uint lane) {
  const uint i = tile * TILE_PAIRS + simd * 8 + lane % 4 * 2;
  if (i >= inner) return;
#pragma unroll
  for (uint block = 0; block < R; block++) {
    const uint row = block * 8 + lane / 4;
    threadgroup const float2* gate = (threadgroup const float2*)(at + block * 128) + lane;
    if (row < live) {
      const float2 g = gate[0], u = gate[32];
      *(device uint*)(out + ulong(row) * inner + i) = packed(silu(g.x) * u.x, silu(g.y) * u.y);
    }
  }
}

constant constexpr uint END_BF16 = 0;
constant constexpr uint END_F32 = 1;
constant constexpr uint END_SWIGLU = 2;
constant constexpr uint END_RESIDUAL = 3;  // adds to the floats that are there

// A simdgroup's products, for rows below live, to out[row][stride], of which outputs are written.
template <int R>
INLINE void store_products(threadgroup const float* at, device uchar* out, uint end, uint outputs, uint stride, uint live,
                           uint tile, uint simd, uint lane) {
  const uint column = tile * TILE_OUTPUTS + simd * 16 + lane / 16 * 8 + lane % 2 * 4;
  const uint count = column < outputs ? min(outputs - column, 4u) : 0;
#pragma unroll
  for (uint block = 0; block < R; block++) {
    const uint row = block * 8 + lane % 16 / 2;
    const float4 v = ((threadgroup const float4*)(at + block * 128))[lane];
    if (row >= live) continue;
    const ulong place = ulong(row) * stride + column;
    if ((outputs | stride) % 4 == 0) {
      if (count == 0) continue;
      if (end == END_BF16) *(device uint2*)(out + place * 2) = uint2(packed(v.x, v.y), packed(v.z, v.w));
      else if (end == END_F32) *(device float4*)(out + place * 4) = v;
      else *(device float4*)(out + place * 4) += v;
    } else {
      const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (uint i = 0; i < 4; i++) {
        if (i >= count) continue;
        if (end == END_BF16) ((device bfloat*)out)[place + i] = bfloat(values[i]);
        else if (end == END_F32) ((device float*)out)[place + i] = values[i];
        else ((device float*)out)[place + i] += values[i];
      }
    }
  }
}
