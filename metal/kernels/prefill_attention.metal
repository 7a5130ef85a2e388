// Attention of a chunk of tokens over the cache, which holds their keys and values already, with online softmax in fp32.
//
// The query heads of a KV head are rows of one matrix, row t*PER+g for head g of token t, so a threadgroup, which takes
// ROWS of them, reads keys and values once for all. It goes through the tokens KEYS at a time, by way of threadgroup
// memory: scores (16 rows a simdgroup), softmax (whole rows in a simdgroup), then weights times values, of which each
// simdgroup sums its own dims for all rows. Weights are rounded to bf16, and so are those that their sum is of.
//
// Sums are relative to a top that follows the largest score only when that is MARGIN above, which is rare: then they are
// scaled, by a product with a diagonal matrix. Key tiles begin at multiples of KEYS and a row's tiles that lie behind its
// token change nothing, so a row's bits don't depend on where chunks are cut.

constant uint HEAD_DIM [[function_constant(0)]];  // 32, 64, 128 or 256
constant uint PER [[function_constant(1)]];       // query heads of a KV head
constant bool FLOATS [[function_constant(2)]];    // projections, of which the gates are read, are f32, else bf16

constant constexpr uint ROWS = 64;
constant constexpr uint KEYS = 32;
constant constexpr uint BLOCK = 64;      // tokens of a cache block
constant constexpr float LOW = -1e30f;   // below all scores
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
  threadgroup uint4* staged;   // KEYS keys or values
  threadgroup float* scores;   // [ROWS][SCORES]; then of each row 8 columns of a diagonal matrix
  threadgroup uint4* weights;  // [ROWS][WEIGHTS]
  threadgroup float* inverse;  // [ROWS] 1/sum of weights
  threadgroup uint* rises;     // for each simdgroup: some top has risen
};

// uint4 of a staged row.
INLINE uint stride() { return HEAD_DIM / 8 + 1; }

// c += a*b for two tiles of rows, two tiles of the inner dim, N tiles of columns.
template <int N>
INLINE void multiply_block(thread simdgroup_float8x8* c, thread const simdgroup_bfloat8x8* a, thread const simdgroup_bfloat8x8* b) {
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      simdgroup_multiply_accumulate(c[i * N + n], a[i * 2], b[n], c[i * N + n]);
      simdgroup_multiply_accumulate(c[i * N + n], a[i * 2 + 1], b[N + n], c[i * N + n]);
    }
  }
}

// Loads this thread's P pieces of KEYS rows of the cache from token t on; behind the last token they are zeros.
template <int P>
INLINE void fetch(thread uint4* to, device const bfloat* kv, device const uint* table, constant PrefillAttentionParams& p, uint head,
                  uint kind, uint t, uint length, uint thread_id) {
  const ulong block = table[t / BLOCK];
  device const uint4* rows = (device const uint4*)(kv + (((block * p.layers + p.layer) * 2 + kind) * p.kv_heads + head) * (BLOCK * HEAD_DIM));
  const uint threads = KEYS * HEAD_DIM / 8 / P;
#pragma unroll
  for (int i = 0; i < P; i++) {
    const uint at = thread_id + i * threads, key = at / (HEAD_DIM / 8);
    to[i] = uint4(0u, 0u, 0u, 0u);
    if (t + key < length) to[i] = rows[(t % BLOCK + key) * (HEAD_DIM / 8) + at % (HEAD_DIM / 8)];
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

// Scores of two tiles of rows and N tiles of the staged keys.
template <int N>
INLINE void score(Tiles m, device const bfloat* queries, uint simd) {
  const uint across = KEYS / 8 / N, row = simd / across * 2, key = simd % across * N;  // tiles
  simdgroup_float8x8 s[2 * N];
#pragma unroll
  for (int i = 0; i < 2 * N; i++) s[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  device const bfloat* q = queries + row * (HEAD_DIM * 8);
  threadgroup const bfloat* keys = (threadgroup const bfloat*)(m.staged + key * 8 * stride());
#pragma unroll 4
  for (uint k = 0; k < HEAD_DIM / 16; k++) {
    simdgroup_bfloat8x8 a[4], b[2 * N];
#pragma unroll
    for (uint i = 0; i < 2; i++) {
#pragma unroll
      for (uint j = 0; j < 2; j++) simdgroup_load(a[i * 2 + j], q + i * (HEAD_DIM * 8) + (k * 2 + j) * 64, 8);
    }
#pragma unroll
    for (uint j = 0; j < 2; j++) {
#pragma unroll
      for (uint n = 0; n < N; n++) {
        simdgroup_load(b[j * N + n], keys + n * 8 * (stride() * 8) + (k * 2 + j) * 8, stride() * 8, ulong2(0, 0), true);
      }
    }
    multiply_block<N>(s, a, b);
  }
#pragma unroll
  for (uint i = 0; i < 2; i++) {
#pragma unroll
    for (uint n = 0; n < N; n++) simdgroup_store(s[i * N + n], m.scores + (row + i) * 8 * SCORES + (key + n) * 8, SCORES);
  }
}

// Softmax so far of the row that this thread shares with KEYS/E-1 others.
struct Running {
  float top;
  float sum;  // of this thread's weights
};

// Turns E scores of a row into weights; those from column `end` on are of tokens that the row must not see.
template <int E>
INLINE void soften(Tiles m, thread Running& run, uint end, uint thread_id, uint simd) {
  const uint share = KEYS / E, row = thread_id / share, column = thread_id % share * E;
  float x[E], top = LOW;
#pragma unroll
  for (uint j = 0; j < E; j++) {
    x[j] = column + j < end ? m.scores[row * SCORES + column + j] : LOW;
    top = max(top, x[j]);
  }
#pragma unroll
  for (ushort other = 1; other < KEYS / E; other *= 2) top = max(top, simd_shuffle_xor(top, other));
  top = top > run.top + MARGIN ? top : run.top;
  const float shrink = fast::exp(run.top - top);
  const bool rise = top > run.top && run.top > LOW;
  run.top = top;
  run.sum *= shrink;
#pragma unroll
  for (uint j = 0; j < E; j += 8) {
    uint pairs[4];
#pragma unroll
    for (uint k = 0; k < 4; k++) {
      const uint c = column + j + 2 * k;
      const bfloat a = bfloat(c < end ? fast::exp(x[j + 2 * k] - top) : 0.0f);
      const bfloat b = bfloat(c + 1 < end ? fast::exp(x[j + 2 * k + 1] - top) : 0.0f);
      run.sum += float(a) + float(b);
      pairs[k] = uint(as_type<ushort>(a)) | uint(as_type<ushort>(b)) << 16;
    }
    m.weights[row * WEIGHTS + (column + j) / 8] = uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);  // the row's scores are read
  if (column == 0) {
#pragma unroll
    for (uint j = 0; j < 8; j++) m.scores[row * SCORES + j] = row % 8 == j ? shrink : 0.0f;
  }
  const bool any = simd_any(rise);
  if (thread_id % 32 == 0) m.rises[simd] = any ? 1 : 0;
}

// Adds weights times the staged values: all rows, N tiles of dims.
template <int N>
INLINE void accumulate(Tiles m, thread simdgroup_float8x8* acc, uint groups, uint simd) {
  uint rise = 0;
  for (uint i = 0; i < groups; i++) rise |= m.rises[i];
  if (rise != 0) {
#pragma unroll
    for (uint i = 0; i < ROWS / 8; i++) {
      simdgroup_float8x8 shrink;
      simdgroup_load(shrink, m.scores + i * 8 * SCORES, SCORES);
#pragma unroll
      for (uint n = 0; n < N; n++) simdgroup_multiply(acc[i * N + n], shrink, acc[i * N + n]);
    }
  }
  threadgroup const bfloat* values = (threadgroup const bfloat*)(m.staged + simd * N);
  threadgroup const bfloat* weights = (threadgroup const bfloat*)m.weights;
#pragma unroll
  for (uint k = 0; k < KEYS / 16; k++) {
    simdgroup_bfloat8x8 b[2 * N];
#pragma unroll
    for (uint j = 0; j < 2; j++) {
#pragma unroll
      for (uint n = 0; n < N; n++) simdgroup_load(b[j * N + n], values + (k * 2 + j) * 8 * (stride() * 8) + n * 8, stride() * 8);
    }
#pragma unroll
    for (uint i = 0; i < ROWS / 8; i += 2) {
      simdgroup_bfloat8x8 a[4];
#pragma unroll
      for (uint r = 0; r < 2; r++) {
#pragma unroll
        for (uint j = 0; j < 2; j++) simdgroup_load(a[r * 2 + j], weights + (i + r) * 8 * (WEIGHTS * 8) + (k * 2 + j) * 8, WEIGHTS * 8);
      }
      multiply_block<N>(acc + i * N, a, b);
    }
  }
}

// Where a threadgroup's rows go.
struct Output {
  device const bfloat* proj;
  device bfloat* out;
  uint head;  // the KV head
  uint row;   // the first, among the KV head's
};

// Divides by the sums of weights, applies the gates and stores, a tile of rows at a time.
template <int N>
INLINE void finish(Tiles m, thread const simdgroup_float8x8* acc, constant PrefillAttentionParams& p, Output o, uint simd, uint lane) {
  constexpr uint DIMS = 8 * N;
  threadgroup float* room = m.scores + simd * 8 * DIMS;
#pragma unroll
  for (uint i = 0; i < ROWS / 8; i++) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint n = 0; n < N; n++) simdgroup_store(acc[i * N + n], room + n * 8, DIMS);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint at = lane; at < 8 * DIMS; at += 32) {
      const uint r = i * 8 + at / DIMS, d = simd * DIMS + at % DIMS, row = o.row + r;
      if (row < p.rows * PER) {
        const ulong t = row / PER, head = o.head * PER + row % PER;
        const ulong gate = t * p.width + p.gate + head * (2 * HEAD_DIM) + d;
        const float g = FLOATS ? ((device const float*)o.proj)[gate] : float(o.proj[gate]);
        o.out[(t * p.kv_heads * PER + head) * HEAD_DIM + d] = bfloat(room[at] * m.inverse[r] * sigmoid(g));
      }
    }
  }
}

// The work of a threadgroup whose simdgroups own N tiles of dims each and score C tiles of keys.
template <int N, int C>
INLINE void attend_tile(Tiles m, device const bfloat* queries, device const bfloat* kv, device const uint* table,
                        constant PrefillAttentionParams& p, Output o, uint position, uint thread_id, uint simd, uint lane) {
  constexpr int E = 2 * C * 2;  // scores of a thread: ROWS*KEYS over 32 for each of the simdgroups
  simdgroup_float8x8 acc[ROWS / 8 * N];
#pragma unroll
  for (uint i = 0; i < ROWS / 8 * N; i++) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  Running run = {LOW, 0.0f};
  const uint groups = HEAD_DIM / 8 / N, length = position + p.rows;
  const uint mine = position + (o.row + thread_id / (KEYS / E)) / PER;        // the last token that the thread's row sees
  const uint last = position + min(p.rows - 1, (o.row + ROWS - 1) / PER);  // that any row sees
  uint4 piece[N];
  fetch<N>(piece, kv, table, p, o.head, 0, 0, length, thread_id);
  for (uint t = 0; t <= last; t += KEYS) {
    stage<N>(m.staged, piece, thread_id);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    fetch<N>(piece, kv, table, p, o.head, 1, t, length, thread_id);
    score<C>(m, queries, simd);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage<N>(m.staged, piece, thread_id);
    soften<E>(m, run, mine < t ? 0 : mine - t + 1, thread_id, simd);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t + KEYS <= last) fetch<N>(piece, kv, table, p, o.head, 0, t + KEYS, length, thread_id);
    accumulate<N>(m, acc, groups, simd);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (ushort other = 1; other < KEYS / E; other *= 2) run.sum += simd_shuffle_xor(run.sum, other);
  if (thread_id % (KEYS / E) == 0) m.inverse[thread_id / (KEYS / E)] = 1.0f / run.sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  finish<N>(m, acc, p, o, simd, lane);
}

kernel void prefill_attention(
    device const bfloat* queries [[buffer(0)]],
    device const bfloat* kv [[buffer(1)]],
    device const uint* table [[buffer(2)]],
    device const Step* step [[buffer(3)]],
    device const bfloat* proj [[buffer(4)]],
    device bfloat* out [[buffer(5)]],
    constant PrefillAttentionParams& p [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint4 staged[KEYS * (256 / 8 + 1)];
  threadgroup float scores[ROWS * SCORES];
  threadgroup uint4 weights[ROWS * WEIGHTS];
  threadgroup float inverse[ROWS];
  threadgroup uint rises[8];
  Tiles m = {staged, scores, weights, inverse, rises};
  const uint tile = p.tiles - 1 - group.y;  // those with most keys come first
  Output o = {proj, out, group.x, tile * ROWS};
  device const bfloat* q = queries + (ulong(group.x) * p.tiles + tile) * (ROWS * HEAD_DIM);
  device const uint* blocks = table + step->table;
  const uint position = step->position;
  if (HEAD_DIM == 256) attend_tile<4, 2>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else if (HEAD_DIM == 128) attend_tile<2, 2>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else if (HEAD_DIM == 64) attend_tile<1, 2>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
  else attend_tile<1, 4>(m, q, kv, blocks, p, o, position, thread_id, simd, lane);
}
