// Attention of one token over the cache, with online softmax in fp32. A simdgroup takes a set of B query heads of one KV
// head, keeps their queries and sums in registers, V dims a lane, and goes through T tokens at a time: it loads T rows of
// keys and of values, and after the sums over dims each lane holds the score of one token and head.
//
// attention_short is one dispatch: a threadgroup for each query head, whose simdgroups share the tokens. attention_split
// reads the cache once for each KV head: a threadgroup for each KV head and range of tokens, with simdgroups for every set
// of heads; attention_merge adds the ranges up. How many ranges hold tokens depends on the position alone.

constant uint HEAD_DIM [[function_constant(0)]];  // 32, 64, 128 or 256
constant uint PER [[function_constant(1)]];       // query heads of a KV head
constant uint SETS [[function_constant(2)]];      // sets of heads in a threadgroup
constant uint SHARES [[function_constant(3)]];    // simdgroups that share the tokens of a set

constant constexpr uint BLOCK = 64;      // tokens of a cache block
constant constexpr uint GRAIN = 16;      // tokens that a range is a multiple of
constant constexpr uint WIDEST = 4;      // heads of a set
constant constexpr float LOW = -1e30f;   // below all scores

struct AttentionParams {
  uint kv_heads;
  uint layer;
  uint layers;
  uint splits;  // ranges
  uint gate;    // elements from the start of the projections to the gate of head 0; queries lie between the gates
};

// Tokens of a range. The last ranges may be empty.
INLINE uint range_of(uint length, uint splits) {
  return ((length + splits - 1) / splits + GRAIN - 1) / GRAIN * GRAIN;
}

// V consecutive bf16 in (V+1)/2 words.
template <int V>
INLINE void load_packed(thread uint* w, device const bfloat* p) {
  if (V == 8) {
    const uint4 x = *(device const uint4*)p;
    w[0] = x.x;
    w[1] = x.y;
    w[2] = x.z;
    w[3] = x.w;
  } else if (V == 4) {
    const uint2 x = *(device const uint2*)p;
    w[0] = x.x;
    w[1] = x.y;
  } else if (V == 2) {
    w[0] = *(device const uint*)p;
  } else {
    w[0] = uint(*(device const ushort*)p);
  }
}

template <int V>
INLINE void unpack(thread float* x, thread const uint* w) {
#pragma unroll
  for (int i = 0; i < V; i++) x[i] = i % 2 == 0 ? low_bf16(w[i / 2]) : high_bf16(w[i / 2]);
}

// Adds up pairs of lanes that differ in bit N, of 2N numbers a lane: it keeps the half that its bit names.
template <int N>
INLINE void fold(thread float* v, uint lane) {
  const bool upper = (lane & N) != 0;
#pragma unroll
  for (int i = 0; i < N; i++) {
    const float a = v[i], b = v[i + N];  // read outside the choice, which else picks addresses, and v leaves its registers
    v[i] = (upper ? b : a) + simd_shuffle_xor(upper ? a : b, N);
  }
}

// The sum over all lanes of v[lane % N], of N = 4, 8 or 16 numbers a lane.
template <int N>
INLINE float sum_of_each(thread float* v, uint lane) {
  if (N == 16) fold<8>(v, lane);
  if (N >= 8) fold<4>(v, lane);
  fold<2>(v, lane);
  fold<1>(v, lane);
  float sum = v[0];
  if (N < 8) sum += simd_shuffle_xor(sum, 4);
  if (N < 16) sum += simd_shuffle_xor(sum, 8);
  return sum + simd_shuffle_xor(sum, 16);
}

// Softmax of the tokens seen so far by a simdgroup. Lane l's top is of head l%B, its sum of every (T*B)-th score.
struct Running {
  float top;
  float sum;
};

// Where the cache is.
struct Cache {
  device const bfloat* kv;
  device const uint* table;
};

// Loads T rows of V dims, from row t of the sequence on, out of the block at `rows`. Rows from last on are replaced by the
// one before.
template <int V, int T>
INLINE void load_tokens(thread uint* w, device const bfloat* rows, uint t, uint last) {
#pragma unroll
  for (int i = 0; i < T; i++) load_packed<V>(w + i * ((V + 1) / 2), rows + min(t + i, last - 1) % BLOCK * HEAD_DIM);
}

// Where the keys of a token's block begin; its values follow those of all KV heads.
INLINE device const bfloat* block_of(Cache cache, constant AttentionParams& p, uint kv_head, uint t) {
  const ulong block = cache.table[t / BLOCK];
  return cache.kv + ((block * p.layers + p.layer) * 2 * p.kv_heads + kv_head) * (BLOCK * HEAD_DIM);
}

// Goes through the tokens first, first+stride, ... below last, T at each place; first and stride are multiples of T, which
// divides BLOCK. Values are loaded before the scores are computed, and the next keys right after, into the registers of
// these.
template <int V, int B, int T>
INLINE void attend(thread float* acc, thread Running& run, thread const float* q, Cache cache,
                   constant AttentionParams& p, uint kv_head, uint first, uint last, uint stride, uint lane) {
  constexpr int WORDS = (V + 1) / 2;
  const uint mine = lane % (T * B) / B;  // the token whose score this lane gets
  const uint to_values = p.kv_heads * (BLOCK * HEAD_DIM) + lane * V;
  uint k[T * WORDS], v[T * WORDS];
  device const bfloat* block = cache.kv;
  if (first < last) {
    block = block_of(cache, p, kv_head, first);
    load_tokens<V, T>(k, block + lane * V, first, last);
  }
  for (uint t = first; t < last; t += stride) {
    load_tokens<V, T>(v, block + to_values, t, last);
    float score[T * B];
#pragma unroll
    for (int i = 0; i < T; i++) {
      float x[V];
      unpack<V>(x, k + i * WORDS);
#pragma unroll
      for (int g = 0; g < B; g++) {
        score[i * B + g] = 0.0f;
#pragma unroll
        for (int j = 0; j < V; j++) score[i * B + g] = fma(q[g * V + j], x[j], score[i * B + g]);
      }
    }
    if (t + stride < last) {
      block = block_of(cache, p, kv_head, t + stride);
      load_tokens<V, T>(k, block + lane * V, t + stride, last);
    }
    const float s = sum_of_each<T * B>(score, lane);
    const bool real = t + mine < last;
    float top = real ? s : LOW;
#pragma unroll
    for (ushort b = B; b < T * B; b *= 2) top = max(top, simd_shuffle_xor(top, b));
    top = max(top, run.top);
    const float weight = real ? exp(s - top) : 0.0f, shrink = exp(run.top - top);
    if (simd_any(top > run.top)) {
#pragma unroll
      for (int g = 0; g < B; g++) {
        const float f = simd_shuffle(shrink, ushort(g));
#pragma unroll
        for (int j = 0; j < V; j++) acc[g * V + j] *= f;
      }
    }
    run.sum = fma(run.sum, shrink, weight);
    run.top = top;
#pragma unroll
    for (int i = 0; i < T; i++) {
      float x[V];
      unpack<V>(x, v + i * WORDS);
#pragma unroll
      for (int g = 0; g < B; g++) {
        const float w = simd_shuffle(weight, ushort(i * B + g));
#pragma unroll
        for (int j = 0; j < V; j++) acc[g * V + j] = fma(w, x[j], acc[g * V + j]);
      }
    }
  }
#pragma unroll
  for (ushort b = B; b < T * B; b *= 2) run.sum += simd_shuffle_xor(run.sum, b);
}

// What simdgroups exchange, WIDEST heads for each.
struct Exchange {
  threadgroup float* top;
  threadgroup float* sum;
  threadgroup float* room;  // a head of every simdgroup
};

// Brings the sums of the simdgroups of a set to one top, that of the set, which run gets with the sum over all.
template <int V, int B>
INLINE void level(thread float* acc, thread Running& run, Exchange e, uint simd, uint lane) {
  if (lane < B) {
    e.top[simd * WIDEST + lane] = run.top;
    e.sum[simd * WIDEST + lane] = run.sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint set = simd / SHARES * SHARES;
  float top = LOW, sum = 0.0f;
  for (uint i = set; i < set + SHARES; i++) top = max(top, e.top[i * WIDEST + lane % B]);
  for (uint i = set; i < set + SHARES; i++) sum = fma(e.sum[i * WIDEST + lane % B], exp(e.top[i * WIDEST + lane % B] - top), sum);
  const float shrink = exp(run.top - top);
#pragma unroll
  for (int g = 0; g < B; g++) {
    const float f = simd_shuffle(shrink, ushort(g));
#pragma unroll
    for (int j = 0; j < V; j++) acc[g * V + j] *= f;
  }
  run.top = top;
  run.sum = sum;
}

// Leaves head g of every set in the room for sum_shares.
template <int V>
INLINE void share_head(thread const float* acc, Exchange e, uint simd, uint lane) {
#pragma unroll
  for (int j = 0; j < V; j++) e.room[simd * HEAD_DIM + lane * V + j] = acc[j];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

INLINE float sum_shares(Exchange e, uint set, uint dim) {
  float sum = 0.0f;
  for (uint i = set * SHARES; i < (set + 1) * SHARES; i++) sum += e.room[i * HEAD_DIM + dim];
  return sum;
}

// V consecutive numbers of a query.
template <int V>
INLINE void load_query(thread float* q, device const float* p) {
  if (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i + 3 < V; i += 4) {
      const float4 x = *(device const float4*)(p + i);
      q[i] = x.x;
      q[i + 1] = x.y;
      q[i + 2] = x.z;
      q[i + 3] = x.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) q[i] = p[i];
  }
}

template <int V, int B>
INLINE void start(thread float* acc, thread Running& run, thread float* q, device const float* queries, uint first, uint most,
                  uint lane) {
  run.top = LOW;
  run.sum = 0.0f;
#pragma unroll
  for (int g = 0; g < B; g++) {
    load_query<V>(q + g * V, queries + min(first + g, most) * HEAD_DIM + lane * V);
#pragma unroll
    for (int j = 0; j < V; j++) acc[g * V + j] = 0.0f;
  }
}

template <int V>
INLINE void attend_short(device const float* queries, device const float* gate, Cache cache, device float* out,
                         constant AttentionParams& p, Exchange e, uint length, uint head, uint thread_id, uint simd, uint lane) {
  float acc[V], q[V];
  Running run;
  start<V, 1>(acc, run, q, queries, head, head, lane);
  attend<V, 1, 8>(acc, run, q, cache, p, head / PER, simd * 8, length, SHARES * 8, lane);
  level<V, 1>(acc, run, e, simd, lane);
  share_head<V>(acc, e, simd, lane);
  for (uint d = thread_id; d < HEAD_DIM; d += SHARES * 32) {
    const float g = gate[head * 2 * HEAD_DIM + d];
    out[lane_order(head * HEAD_DIM + d)] = sum_shares(e, 0, d) / run.sum * sigmoid(g);
  }
}

kernel void attention_short(
    device const float* queries [[buffer(0)]],
    device const bfloat* kv [[buffer(1)]],
    device const uint* table [[buffer(2)]],
    device const Step* step [[buffer(3)]],
    device const float* proj [[buffer(4)]],
    device float* out [[buffer(5)]],
    constant AttentionParams& p [[buffer(6)]],
    uint head [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float top[16 * WIDEST];
  threadgroup float sum[16 * WIDEST];
  threadgroup float room[16 * 256];
  Exchange e = {top, sum, room};
  Cache cache = {kv, table + step->table};
  const uint length = step->position + 1;
  if (HEAD_DIM == 256) attend_short<8>(queries, proj + p.gate, cache, out, p, e, length, head, thread_id, simd, lane);
  else if (HEAD_DIM == 128) attend_short<4>(queries, proj + p.gate, cache, out, p, e, length, head, thread_id, simd, lane);
  else if (HEAD_DIM == 64) attend_short<2>(queries, proj + p.gate, cache, out, p, e, length, head, thread_id, simd, lane);
  else attend_short<1>(queries, proj + p.gate, cache, out, p, e, length, head, thread_id, simd, lane);
}

// Where a range leaves its sums, [head][split][HEAD_DIM], and (top, sum), [head][split].
struct Partials {
  device float* acc;
  device float2* run;
};

template <int V, int B, int T>
INLINE void attend_range(device const float* queries, Cache cache, Partials to, constant AttentionParams& p, Exchange e, uint first,
                         uint last, uint kv_head, uint split, uint thread_id, uint simd, uint lane) {
  float acc[B * V], q[B * V];
  Running run;
  const uint set = simd / SHARES, share = simd % SHARES;
  start<V, B>(acc, run, q, queries, kv_head * PER + set * B, kv_head * PER + PER - 1, lane);
  attend<V, B, T>(acc, run, q, cache, p, kv_head, first + share * T, last, SHARES * T, lane);
  level<V, B>(acc, run, e, simd, lane);
  if (share == 0 && lane < B && set * B + lane < PER) {
    to.run[(kv_head * PER + set * B + lane) * p.splits + split] = float2(run.top, run.sum);
  }
#pragma unroll
  for (int g = 0; g < B; g++) {
    share_head<V>(acc + g * V, e, simd, lane);
    for (uint i = thread_id; i < SETS * HEAD_DIM; i += SETS * SHARES * 32) {
      const uint s = i / HEAD_DIM, d = i % HEAD_DIM, head = s * B + g;
      if (head < PER) to.acc[((kv_head * PER + head) * p.splits + split) * HEAD_DIM + d] = sum_shares(e, s, d);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

template <int V>
INLINE void attend_some(device const float* queries, Cache cache, Partials to, constant AttentionParams& p, Exchange e, uint first,
                        uint last, uint kv_head, uint split, uint thread_id, uint simd, uint lane) {
  if (PER == 1) attend_range<V, 1, 8>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
  else if (PER == 2) attend_range<V, 2, 8>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
  else attend_range<V, 4, 4>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
}

kernel void attention_split(
    device const float* queries [[buffer(0)]],
    device const bfloat* kv [[buffer(1)]],
    device const uint* table [[buffer(2)]],
    device const Step* step [[buffer(3)]],
    device float* acc [[buffer(4)]],
    device float2* run [[buffer(5)]],
    constant AttentionParams& p [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float top[8 * WIDEST];
  threadgroup float sum[8 * WIDEST];
  threadgroup float room[8 * 256];
  Exchange e = {top, sum, room};
  Cache cache = {kv, table + step->table};
  Partials to = {acc, run};
  const uint split = group.x, kv_head = group.y, length = step->position + 1;
  const uint range = range_of(length, p.splits), first = split * range, last = min(first + range, length);
  if (first < last) {
    if (HEAD_DIM == 256) attend_some<8>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
    else if (HEAD_DIM == 128) attend_some<4>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
    else if (HEAD_DIM == 64) attend_some<2>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
    else attend_some<1>(queries, cache, to, p, e, first, last, kv_head, split, thread_id, simd, lane);
  }
}

constant constexpr uint MERGERS = 8;  // simdgroups of a threadgroup that share the ranges

// A threadgroup for each head and 32 of its dims.
kernel void attention_merge(
    device const float* acc [[buffer(0)]],
    device const float2* run [[buffer(1)]],
    device const Step* step [[buffer(2)]],
    device const float* proj [[buffer(3)]],
    device float* out [[buffer(4)]],
    constant AttentionParams& p [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float room[MERGERS * 32];
  threadgroup float sums[MERGERS];
  const uint head = group.y, d = group.x * 32 + lane, length = step->position + 1;
  const uint range = range_of(length, p.splits), count = (length + range - 1) / range;
  device const float2* mine = run + head * p.splits;
  float top = LOW;
  for (uint i = lane; i < count; i += 32) top = max(top, mine[i].x);
  top = simd_max(top);
  float y = 0.0f, sum = 0.0f;
#pragma unroll 4
  for (uint i = simd; i < count; i += MERGERS) {
    const float2 r = mine[i];
    const float f = exp(r.x - top);
    sum = fma(r.y, f, sum);
    y = fma(acc[(head * p.splits + i) * HEAD_DIM + d], f, y);
  }
  room[simd * 32 + lane] = y;
  if (lane == 0) sums[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd == 0) {
    y = 0.0f;
    sum = 0.0f;
#pragma unroll
    for (uint i = 0; i < MERGERS; i++) {
      y += room[i * 32 + lane];
      sum += sums[i];
    }
    out[lane_order(head * HEAD_DIM + d)] = y / sum * sigmoid(proj[p.gate + head * 2 * HEAD_DIM + d]);
  }
}
