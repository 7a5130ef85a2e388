// What attention of a chunk needs of the projections of its tokens: attention_prep.metal for many tokens. A simdgroup takes
// one head of one token: queries first, then keys, then values.
//
// Queries are left where prefill_attention reads them: those of a KV head's group one after the other, token by token, as
// 8x8 tiles of (query, dim), up to a multiple of TILE rows, of which the last, of no token, are zeros.

constant uint HEAD_DIM [[function_constant(0)]];  // 32, 64, 128 or 256
constant uint HALF [[function_constant(1)]];      // pairs of dims that RoPE turns: dim i with dim i+HALF
constant bool FLOATS [[function_constant(2)]];    // projections are f32, else bf16

constant constexpr uint BLOCK = 64;   // tokens of a cache block
constant constexpr uint FINE = 512;   // positions of the fine table
constant constexpr uint TILE = 64;    // rows of prefill_attention's tiles
constant constexpr uint TOKENS = 8;   // of a threadgroup, one for each simdgroup

struct PrefillPrepParams {
  uint rows;  // tokens
  uint heads;
  uint kv_heads;
  uint layer;
  uint layers;
  uint width;  // elements of a token's projections
  uint q;      // elements to where queries alternate with gates
  uint k;
  uint v;
  float eps;
  float scale;  // of queries
};

INLINE float projected(device const bfloat* proj, ulong at) {
  return FLOATS ? ((device const float*)proj)[at] : float(proj[at]);
}

// Row of the cache for a head of keys (kind 0) or values (1) at a position.
INLINE ulong cache_row(device const uint* table, uint position, constant PrefillPrepParams& p, uint kind, uint head) {
  const ulong block = table[position / BLOCK];
  return (((block * p.layers + p.layer) * 2 + kind) * p.kv_heads + head) * BLOCK + position % BLOCK;
}

// (cos, sin) of pair i at a position, whose angle is that of a multiple of FINE plus that of the rest.
INLINE float2 turn_of(device const float2* coarse, device const float2* fine, uint position, uint i) {
  const float2 a = coarse[position / FINE * HALF + i], b = fine[position % FINE * HALF + i];
  return float2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}

// Leaves one dim of a row of queries in its tile.
INLINE void put_query(device bfloat* q, ulong row, uint d, float y) {
  q[(row / 8 * (HEAD_DIM / 8) + d / 8) * 64 + row % 8 * 8 + d % 8] = bfloat(y);
}

kernel void prefill_attention_prep(
    device const bfloat* proj [[buffer(0)]],
    device const float* q_gain [[buffer(1)]],
    device const float* k_gain [[buffer(2)]],
    device const float2* coarse [[buffer(3)]],
    device const float2* fine [[buffer(4)]],
    device const uint* table [[buffer(5)]],
    device const Step* step [[buffer(6)]],
    device bfloat* kv [[buffer(7)]],
    device bfloat* q [[buffer(8)]],
    constant PrefillPrepParams& p [[buffer(9)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float room[TOKENS * 256];
  threadgroup float* x = room + simd * 256;
  const uint unit = group.x, t = group.y * TOKENS + simd;
  const bool query = unit < p.heads, value = unit >= p.heads + p.kv_heads;
  const uint head = query ? unit : (unit - p.heads) % p.kv_heads, per = p.heads / p.kv_heads;
  const ulong padded = ulong(p.rows * per + TILE - 1) / TILE * TILE;  // rows of a KV head's queries
  const ulong row = ulong(t) * per + head % per, place = head / per * padded + row;
  if (t < p.rows) {
    const uint position = step->position + t;
    const ulong from = ulong(t) * p.width + (query ? p.q + head * 2 * HEAD_DIM : (value ? p.v : p.k) + head * HEAD_DIM);
    float sum = 0.0f;
#pragma unroll
    for (uint i = 0; i < HEAD_DIM / 32; i++) {
      const uint d = lane + i * 32;
      x[d] = projected(proj, from + d);
      sum = fma(x[d], x[d], sum);
    }
    const float inverse = rsqrt(simd_sum(sum) / float(HEAD_DIM) + p.eps);
    if (!value) {
      device const float* gain = query ? q_gain : k_gain;
#pragma unroll
      for (uint i = 0; i < HEAD_DIM / 32; i++) {
        const uint d = lane + i * 32;
        x[d] = x[d] * inverse * gain[d];
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    device bfloat* to = kv;
    if (!query) to += cache_row(table + step->table, position, p, value ? 1 : 0, head) * HEAD_DIM;
#pragma unroll
    for (uint i = 0; i < HEAD_DIM / 32; i++) {
      const uint d = lane + i * 32;
      float y = x[d];
      if (!value && d < 2 * HALF) {
        const float2 turn = turn_of(coarse, fine, position, d % HALF);
        y = d < HALF ? y * turn.x - x[d + HALF] * turn.y : y * turn.x + x[d - HALF] * turn.y;
      }
      if (query) put_query(q, place, d, y * p.scale);
      else to[d] = bfloat(y);
    }
  } else if (query && row < padded) {
    for (uint d = lane; d < HEAD_DIM; d += 32) put_query(q, place, d, 0.0f);
  }
}
