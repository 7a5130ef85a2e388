// Attention of a chunk of tokens over the cache, which holds their keys and values already, with online softmax in fp32.
//
// The query heads of a KV head are rows of one matrix, row t*PER+g for head g of token t, so a threadgroup, which takes
// ROWS of them, reads keys and values once for all. It goes through the tokens KEYS at a time, by way of threadgroup
// memory: weights, of 16 rows and 16 keys a simdgroup, then weights times values, of which each simdgroup sums its own
// dims for all rows. Weights are rounded to bf16, and so are those that their sum is of.
//
// Weights are relative to a row's top, which follows its largest score only when that is MARGIN above, and which the sums
// of a score begin with. So a score becomes a weight without its neighbours, in whatever lane it lies; only where some top
// must rise, or rows must not see all keys, scores are laid out by rows (settle). Key tiles begin at multiples of KEYS and
// a row's tiles that lie behind its token change nothing, so a row's bits don't depend on where chunks are cut.

constant uint HEAD_DIM [[function_constant(0)]];  // 32, 64, 128 or 256
constant uint PER [[function_constant(1)]];       // query heads of a KV head
constant bool FLOATS [[function_constant(2)]];    // projections, of which the gates are read, are f32, else bf16

constant constexpr uint ROWS = 64;
constant constexpr uint KEYS = 32;
constant constexpr uint BLOCK = 64;      // tokens of a cache block
constant constexpr float LOW = -1e30f;   // below all scores
constant constexpr float LOG2E = 1.44269504f;
constant constexpr float MARGIN = 8.0f;  // weights stay below e^8
// Row lengths in threadgroup memory, padded against bank conflicts.
constant constexpr uint SCORES = KEYS + 4;        // floats
constant constexpr uint WEIGHTS = KEYS / 8 + 1;   // uint4, 8 bf16 each

struct PrefillAttentionParams {
  uint kv_heads;
  uint layer;
  uint layers;
  uint rows;   // tokens of the chunk
  uint tiles;  // of ROWS rows, for each KV head
  uint width;  // elements of a token's projections
  uint gate;   // elements to the gate of head 0; queries lie between the gates
};

// Threadgroup memory.
struct Tiles {
  threadgroup uint4* staged;    // KEYS keys or values, or scores
  threadgroup uint4* weights;   // [ROWS][WEIGHTS]
  threadgroup float* below;     // [ROWS][8]: minus the top of a row, eight times, for simdgroup_load
  threadgroup float* factors;   // [ROWS][8]: what a row's sums are to be multiplied by, likewise; at last their weights' sum
  threadgroup uint* rises;      // of each simdgroup: some score is MARGIN above its row's top
};

// uint4 of a staged row.
INLINE uint stride() { return HEAD_DIM / 8 + 1; }

// Two by two matrices, a[2i+l] of rows 8i and columns 8l; the simulator's GPU has loads of its own for these three.
INLINE void load_left(thread simdgroup_bfloat8x8* a, threadgroup const bfloat* p, uint stride) {
#ifdef __SIM_LOAD_LEFT
  __SIM_LOAD_LEFT(a, p, stride);
#else
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(a[i], p + i / 2 * 8 * stride + i % 2 * 8, stride);
#endif
}

// b[2l+j] of rows 8l and columns 8j.
INLINE void load_right(thread simdgroup_bfloat8x8* b, threadgroup const bfloat* p, uint stride) {
#ifdef __SIM_LOAD_RIGHT
  __SIM_LOAD_RIGHT(b, p, stride);
#else
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(b[i], p + i / 2 * 8 * stride + i % 2 * 8, stride);
#endif
}

// b[2l+j] of the transpose: rows 8j and columns 8l of what is there.
INLINE void load_right_turned(thread simdgroup_bfloat8x8* b, threadgroup const bfloat* p, uint stride) {
#ifdef __SIM_LOAD_RIGHT_TURNED
  __SIM_LOAD_RIGHT_TURNED(b, p, stride);
#else
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(b[i], p + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0, 0), true);
#endif
}

// Loads this thread's P pieces of KEYS rows of the cache from token t on; behind the last token they are zeros.
template <int P>
INLINE void fetch(thread uint4* to, device const bfloat* kv, device const uint* table, constant PrefillAttentionParams& p, uint head,
                  uint kind, uint t, uint length, uint thread_id) {
  const ulong block = table[t / BLOCK];
  const ulong row = (((block * p.layers + p.layer) * 2 + kind) * p.kv_heads + head) * BLOCK + t % BLOCK;
  device const uint4* rows = (device const uint4*)(kv + row * HEAD_DIM) + thread_id;
  const uint threads = KEYS * HEAD_DIM / 8 / P;
#pragma unroll
  for (int i = 0; i < P; i++) {
    to[i] = uint4(0u, 0u, 0u, 0u);
    if (t + (thread_id + i * threads) / (HEAD_DIM / 8) < length) to[i] = rows[i * threads];
  }
}

template <int P>
INLINE void stage(threadgroup uint4* staged, thread const uint4* from, uint thread_id) {
  const uint threads = KEYS * HEAD_DIM / 8 / P;
#pragma unroll
  for (int i = 0; i < P; i++) {
    const uint at = thread_id + i * threads;
    staged[at / (HEAD_DIM / 8) * stride() + at % (HEAD_DIM / 8)] = from[i];
  }
}

// Weights of a simdgroup's two tiles of rows and 2P tiles of the staged keys. Leaves scores less their tops in s, and says
// whether some are above MARGIN.
template <int P>
INLINE bool weigh(Tiles m, thread simdgroup_float8x8* s, device const bfloat* queries, uint row, uint key) {
#pragma unroll
  for (uint i = 0; i < 4 * P; i++) simdgroup_load(s[i], m.below + (row + i % 4 / 2) * 64, 8);
  device const bfloat* q = queries + row * (HEAD_DIM * 8);
  threadgroup const bfloat* keys = (threadgroup const bfloat*)(m.staged + key * 8 * stride());
#pragma unroll 8
  for (uint k = 0; k < HEAD_DIM / 16; k++) {
    simdgroup_bfloat8x8 a[4], b[4];
#pragma unroll
    for (uint i = 0; i < 4; i++) simdgroup_load(a[i], q + i / 2 * (HEAD_DIM * 8) + (k * 2 + i % 2) * 64, 8);
#pragma unroll
    for (uint n = 0; n < P; n++) {
      load_right_turned(b, keys + n * 16 * (stride() * 8) + k * 16, stride() * 8);
      multiply_block<bfloat, 2, 2, 2>(s + 4 * n, a, b);
    }
  }
  float top = LOW;
  threadgroup bfloat* weights = (threadgroup bfloat*)m.weights;
#pragma unroll
  for (uint i = 0; i < 4 * P; i++) {
    simdgroup_bfloat8x8 w;
#pragma unroll
    for (uint e = 0; e < 2; e++) {
      const float x = s[i].thread_elements()[e];
      top = max(top, x);
      w.thread_elements()[e] = bfloat(fast::exp2(x * LOG2E));
    }
    simdgroup_store(w, weights + (row + i % 4 / 2) * 8 * (WEIGHTS * 8) + (key + i / 4 * 2 + i % 2) * 8, WEIGHTS * 8);
  }
  return top > MARGIN;
}

// Turns E scores of a row, from `column` on, less the row's top, into weights. Those from column `end` on are of tokens that
// the row must not see. The first tile sets the top.
template <int E>
INLINE void settle_row(Tiles m, uint row, uint column, uint end, bool first) {
  threadgroup const float* scores = (threadgroup const float*)m.staged + row * SCORES + column;
  float x[E], rise = LOW;
#pragma unroll
  for (uint j = 0; j < E; j++) {
    x[j] = scores[j];
    if (column + j < end) rise = max(rise, x[j]);
  }
#pragma unroll
  for (ushort other = 1; other < KEYS / E; other *= 2) rise = max(rise, simd_shuffle_xor(rise, other));
  rise = first || rise > MARGIN ? rise : 0.0f;
#pragma unroll
  for (uint j = 0; j < E; j += 8) {
    uint pairs[4];
#pragma unroll
    for (uint k = 0; k < 4; k++) {
      const uint c = column + j + 2 * k;
      const float a = c < end ? fast::exp2((x[j + 2 * k] - rise) * LOG2E) : 0.0f;
      const float b = c + 1 < end ? fast::exp2((x[j + 2 * k + 1] - rise) * LOG2E) : 0.0f;
      pairs[k] = packed(a, b);
    }
    m.weights[row * WEIGHTS + (column + j) / 8] = uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  const float factor = first ? 1.0f : fast::exp2(-rise * LOG2E);
#pragma unroll
  for (uint j = 0; j < E / 4; j++) {  // each thread its share of eight
    const uint at = row * 8 + column / 4 + j;
    m.below[at] -= rise;
    m.factors[at] = factor;
  }
}

// The sums of tile i of rows and tile n of a simdgroup's N tiles of dims: blocks of two by two, or two by one.
template <int N>
INLINE uint place(uint i, uint n) {
  constexpr uint J = N < 2 ? 1 : 2;
  return (i / 2 * (N / J) + n / J) * 2 * J + i % 2 * J + n % J;
}

// What a simdgroup adds up.
template <int N> struct Sums {
  simdgroup_float8x8 dims[ROWS / 8 * N];  // all rows, N tiles of dims
  simdgroup_float8x8 weights[2];          // two tiles of rows: the sum of their weights, eight times
};

INLINE void scale_rows(thread simdgroup_float8x8& sum, threadgroup const float* factors) {
  simdgroup_float8x8 f;
  simdgroup_load(f, factors, 8);
#pragma unroll
  for (uint e = 0; e < 2; e++) sum.thread_elements()[e] *= f.thread_elements()[e];
}

template <int N>
INLINE void rescale(Tiles m, thread Sums<N>& sums, uint pair) {
#pragma unroll
  for (uint i = 0; i < ROWS / 8; i++) {
#pragma unroll
    for (uint n = 0; n < N; n++) scale_rows(sums.dims[place<N>(i, n)], m.factors + i * 64);
  }
#pragma unroll
  for (uint i = 0; i < 2; i++) scale_rows(sums.weights[i], m.factors + (2 * pair + i) * 64);
}

// Adds weights times the staged values.
template <int N>
INLINE void accumulate(Tiles m, thread Sums<N>& sums, uint pair, uint simd) {
  constexpr uint J = N < 2 ? 1 : 2;
  threadgroup const bfloat* values = (threadgroup const bfloat*)(m.staged + simd * N);
  threadgroup const bfloat* weights = (threadgroup const bfloat*)m.weights;
  simdgroup_bfloat8x8 ones[2];
  ones[0] = ones[1] = make_filled_simdgroup_matrix<bfloat, 8, 8>(bfloat(1.0f));
#pragma unroll
  for (uint k = 0; k < KEYS / 16; k++) {
    simdgroup_bfloat8x8 b[2 * N];
#pragma unroll
    for (uint n = 0; n < N / J; n++) {
      threadgroup const bfloat* from = values + k * 16 * (stride() * 8) + n * 16;
      if (J == 2) load_right(b + 4 * n, from, stride() * 8);
      else for (uint j = 0; j < 2; j++) simdgroup_load(b[j], from + j * 8 * (stride() * 8), stride() * 8);
    }
#pragma unroll
    for (uint i = 0; i < ROWS / 8; i += 2) {
      simdgroup_bfloat8x8 a[4];
      load_left(a, weights + i * 8 * (WEIGHTS * 8) + k * 16, WEIGHTS * 8);
#pragma unroll
      for (uint n = 0; n < N / J; n++) multiply_block<bfloat, 2, J, 2>(sums.dims + place<N>(i, n * J), a, b + 2 * J * n);
      if (i / 2 == pair) multiply_block<bfloat, 2, 1, 2>(sums.weights, a, ones);
    }
  }
}

// Where a threadgroup's rows go.
struct Output {
  device const bfloat* proj;
  device half* out;
  uint head;  // the KV head
  uint row;   // the first, among the KV head's
};

// Divides by the sums of weights, applies the gates and stores, a tile of rows at a time.
template <int N>
INLINE void finish(Tiles m, thread const simdgroup_float8x8* sums, constant PrefillAttentionParams& p, Output o, uint simd, uint lane) {
  constexpr uint DIMS = 8 * N;
  threadgroup float* room = (threadgroup float*)m.staged + simd * (N * 64);
#pragma unroll
  for (uint i = 0; i < ROWS / 8; i++) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint n = 0; n < N; n++) simdgroup_store(sums[place<N>(i, n)], room + n * 8, DIMS);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint at = lane; at < 8 * DIMS; at += 32) {
      const uint r = i * 8 + at / DIMS, d = simd * DIMS + at % DIMS, row = o.row + r;
      if (row < p.rows * PER) {
        const ulong t = row / PER, head = o.head * PER + row % PER;
        const ulong gate = t * p.width + p.gate + head * (2 * HEAD_DIM) + d;
        const float g = FLOATS ? ((device const float*)o.proj)[gate] : float(o.proj[gate]);
        o.out[(t * p.kv_heads * PER + head) * HEAD_DIM + d] = half(saturated(room[at] / m.factors[r * 8] * sigmoid(g)));
      }
    }
  }
}

// The work of a threadgroup for heads of DIMS dims.
template <int DIMS>
INLINE void attend_tile(Tiles m, device const bfloat* queries, device const bfloat* kv, device const uint* table,
                        constant PrefillAttentionParams& p, Output o, uint position, uint thread_id, uint simd, uint lane) {
  constexpr int N = DIMS < 64 ? 1 : DIMS / 64, P = DIMS < 64 ? 2 : 1;  // tiles of dims, pairs of tiles of keys
  constexpr uint GROUPS = DIMS / 8 / N, E = ROWS * KEYS / 32 / GROUPS;
  Sums<N> sums;
#pragma unroll
  for (uint i = 0; i < ROWS / 8 * N; i++) sums.dims[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  sums.weights[0] = sums.weights[1] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint i = thread_id; i < ROWS * 8; i += 32 * GROUPS) m.below[i] = 0.0f;
  const uint across = KEYS / 16 / P, row = simd / across * 2, key = simd % across * P * 2;  // tiles that it weighs
  const uint own = thread_id / (KEYS / E), column = thread_id % (KEYS / E) * E;            // scores that the thread settles
  const uint pair = simd * 4 / GROUPS, length = position + p.rows;
  const uint mine = position + (o.row + own) / PER, first = position + o.row / PER;  // the last tokens that its row, and all rows, see
  const uint last = position + min(p.rows - 1, (o.row + ROWS - 1) / PER);            // that any row sees
  uint4 piece[N];
  fetch<N>(piece, kv, table, p, o.head, 0, 0, length, thread_id);
  for (uint t = 0; t <= last; t += KEYS) {
    stage<N>(m.staged, piece, thread_id);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    fetch<N>(piece, kv, table, p, o.head, 1, t, length, thread_id);
    simdgroup_float8x8 s[4 * P];
    const bool rise = simd_any(weigh<P>(m, s, queries, row, key));
    if (lane == 0) m.rises[simd] = rise ? 1 : 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == 0 || t + KEYS - 1 > first || simd_any(m.rises[lane % GROUPS] != 0)) {
#pragma unroll
      for (uint i = 0; i < 4 * P; i++) {
        simdgroup_store(s[i], (threadgroup float*)m.staged + (row + i % 4 / 2) * 8 * SCORES + (key + i / 4 * 2 + i % 2) * 8, SCORES);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      settle_row<E>(m, own, column, mine < t ? 0 : mine - t + 1, t == 0);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      rescale<N>(m, sums, pair);
    }
    stage<N>(m.staged, piece, thread_id);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t + KEYS <= last) fetch<N>(piece, kv, table, p, o.head, 0, t + KEYS, length, thread_id);
    accumulate<N>(m, sums, pair, simd);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (uint i = 0; i < 2; i++) simdgroup_store(sums.weights[i], m.factors + (2 * pair + i) * 64, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  finish<N>(m, sums.dims, p, o, simd, lane);
}

[[max_total_threads_per_threadgroup(512)]] kernel void prefill_attention(
    device const uint4* queries [[buffer(0)]],
    device const bfloat* kv [[buffer(1)]],
    device const uint* table [[buffer(2)]],
    device const Step* step [[buffer(3)]],
    device const bfloat* proj [[buffer(4)]],
    device half* out [[buffer(5)]],
    constant PrefillAttentionParams& p [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint4 staged[KEYS * (256 / 8 + 1)];
  threadgroup uint4 weights[ROWS * WEIGHTS];
  threadgroup float below[ROWS * 8], factors[ROWS * 8];
  threadgroup uint rises[8];
  Tiles m = {staged, weights, below, factors, rises};
  const uint tile = p.tiles - 1 - group.y;  // those with most keys come first
  Output o = {proj, out, group.x, tile * ROWS};
  device const bfloat* q = (device const bfloat*)(queries + (ulong(group.x) * p.tiles + tile) * (ROWS * HEAD_DIM / 8));
  device const uint* blocks = table + step->table;
  const uint position = step->position;
  if (HEAD_DIM == 256) attend_tile<256>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else if (HEAD_DIM == 128) attend_tile<128>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else if (HEAD_DIM == 64) attend_tile<64>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else attend_tile<32>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
}
