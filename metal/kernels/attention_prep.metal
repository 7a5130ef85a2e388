// What gated attention needs of a token's projections: queries and keys, normed, turned by RoPE, and keys and values put
// into the cache. A simdgroup for each head: queries first, then keys, then values.

constant uint HEAD_DIM [[function_constant(0)]];  // 32, 64, 128 or 256
constant uint HALF [[function_constant(1)]];      // pairs of dims that RoPE turns: dim i with dim i+HALF

constant constexpr uint BLOCK = 64;  // tokens of a cache block
constant constexpr uint FINE = 512;  // positions of the fine table

struct PrepParams {
  uint heads;
  uint kv_heads;
  uint layer;
  uint layers;
  uint q;  // elements from the start of the projections; queries alternate with gates
  uint k;
  uint v;
  float eps;
  float scale;  // of queries
};

// Row of the cache for a head of keys (kind 0) or values (1) at a position.
INLINE ulong cache_row(device const uint* table, device const Step* step, constant PrepParams& p, uint kind, uint head) {
  const uint position = step->position;
  const ulong block = table[step->table + position / BLOCK];
  return (((block * p.layers + p.layer) * 2 + kind) * p.kv_heads + head) * BLOCK + position % BLOCK;
}

// (cos, sin) of pair i at a position, whose angle is that of a multiple of FINE plus that of the rest.
INLINE float2 turn_of(device const float2* coarse, device const float2* fine, uint position, uint i) {
  const float2 a = coarse[position / FINE * HALF + i], b = fine[position % FINE * HALF + i];
  return float2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}

kernel void attention_prep(
    device const float* proj [[buffer(0)]],
    device const float* q_gain [[buffer(1)]],
    device const float* k_gain [[buffer(2)]],
    device const float2* coarse [[buffer(3)]],
    device const float2* fine [[buffer(4)]],
    device const uint* table [[buffer(5)]],
    device const Step* step [[buffer(6)]],
    device bfloat* kv [[buffer(7)]],
    device float* q [[buffer(8)]],
    constant PrepParams& p [[buffer(9)]],
    uint unit [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float x[256];
  const bool query = unit < p.heads, value = unit >= p.heads + p.kv_heads;
  const uint head = query ? unit : (unit - p.heads) % p.kv_heads;
  device const float* from = proj + (query ? p.q + head * 2 * HEAD_DIM : (value ? p.v : p.k) + head * HEAD_DIM);
  device bfloat* row = kv;
  if (!query) row += cache_row(table, step, p, value ? 1 : 0, head) * HEAD_DIM;
  float sum = 0.0f;
#pragma unroll
  for (uint i = 0; i < HEAD_DIM / 32; i++) {
    const uint d = lane + i * 32;
    x[d] = from[d];
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
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < HEAD_DIM / 32; i++) {
    const uint d = lane + i * 32;
    float y = x[d];
    if (!value && d < 2 * HALF) {
      const float2 turn = turn_of(coarse, fine, step->position, d % HALF);
      y = d < HALF ? y * turn.x - x[d + HALF] * turn.y : y * turn.x + x[d - HALF] * turn.y;
    }
    if (query) q[head * HEAD_DIM + d] = y * p.scale;
    else row[d] = bfloat(y);
  }
}
