// The recurrence of Gated DeltaNet over chunks of CHUNK tokens by matrix products (the WY form: Yang and others, "Gated
// Delta Networks", 2024, section 3.3). Within a chunk that begins with the state S, let g[t] be the product of the decays
// up to token t, R[t][i] that of those behind i up to t, b[t] the write strength. The tokens' writes U, a row each, solve
//
//   (I + L) U = diag(b) (V - diag(g) K S'),   L[t][i] = b[t] R[t][i] (k[t] . k[i]) for i < t
//
// and outputs and next state follow:
//
//   O = diag(g) Q S' + A U,   A[t][i] = R[t][i] (q[t] . k[i]) for i <= t;   g[last] S + (R[last] U)' K
//
// prefill_delta_solve computes (I + L)^-1 diag(b) and A of all chunks at once; prefill_delta_chunk goes through the chunks
// with the state. All numbers are fp32. Ratios of decays are products, never quotients: a decay of zero is as good as any.
// Tokens behind the last have queries, keys and values of zeros, and gates that change nothing.

constant uint KEY_DIM [[function_constant(0)]];    // a multiple of 64, at most 256
constant uint VALUE_DIM [[function_constant(1)]];  // a multiple of 32
constant uint SLICE [[function_constant(2)]];      // state rows of a threadgroup of prefill_delta_chunk: 32, or 16 if KEY_DIM is above 128

constant constexpr uint CHUNK = 64;
constant constexpr uint STRIDE = CHUNK + 4;  // floats of a row in threadgroup memory, padded against bank conflicts

struct DeltaChunkParams {
  uint chunks;
  uint key_heads;
  uint value_heads;
  uint layer;
  uint layers;
};

// Two by two matrices m[2i+j], of rows 8i and columns 8j of what is there.
template <class P>
INLINE void load_square(thread simdgroup_float8x8* m, P from, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(m[i], from + i / 2 * 8 * stride + i % 2 * 8, stride);
}

// Two by two matrices m[2i+j] of the transpose: of columns 8i and rows 8j of what is there.
template <class P>
INLINE void load_turned(thread simdgroup_float8x8* m, P from, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; i++) simdgroup_load(m[i], from + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0, 0), true);
}

INLINE void multiply_elements(thread simdgroup_float8x8& m, simdgroup_float8x8 by) {
  m.thread_elements()[0] *= by.thread_elements()[0];
  m.thread_elements()[1] *= by.thread_elements()[1];
}

// Multiplies a matrix by numbers of its rows, each of which is there eight times.
INLINE void scale_rows(thread simdgroup_float8x8& m, threadgroup const float* numbers) {
  simdgroup_float8x8 f;
  simdgroup_load(f, numbers, 8);
  multiply_elements(m, f);
}

INLINE void scale_columns(thread simdgroup_float8x8& m, threadgroup const float* numbers) {
  simdgroup_float8x8 f;
  simdgroup_load(f, numbers, 8, ulong2(0, 0), true);
  multiply_elements(m, f);
}

template <int N>
INLINE void clear(thread simdgroup_float8x8* m) {
#pragma unroll
  for (int i = 0; i < N; i++) m[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}

// Ratios of the chunk's decays in ratios[t][i], zero for i > t, and b in strengths, eight times. The chunk's gates are
// replaced: token t's by (g[t], R[last][t]).
INLINE void weigh_decays(threadgroup float* ratios, threadgroup float* strengths, threadgroup float2* gates, device float2* place,
                         uint heads, uint thread_id) {
  if (thread_id < CHUNK) gates[thread_id] = place[thread_id * heads];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint own = thread_id % CHUNK;
  float product = 1.0f;
  if (thread_id < CHUNK) {
    for (uint t = 0; t < CHUNK; t++) {
      if (t > own) product *= gates[t].x;
      ratios[t * STRIDE + own] = t < own ? 0.0f : product;
    }
    ((device float*)(place + own * heads))[1] = product;
  } else if (thread_id < 2 * CHUNK) {
    for (uint t = 0; t <= own; t++) product *= gates[t].x;
    ((device float*)(place + own * heads))[0] = product;
  } else if (thread_id < 3 * CHUNK) {
    for (uint j = 0; j < 8; j++) strengths[own * 8 + j] = gates[own].y;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// Inverts the blocks of 16 by 16 on the diagonal of I + L in place, by substitution: a thread has a column.
INLINE void invert_diagonal(threadgroup float* l, uint thread_id) {
  threadgroup float* block = l + thread_id / 16 * (16 * STRIDE + 16);
  const uint column = thread_id % 16;
  float x[16];
#pragma unroll
  for (uint t = 0; t < 16; t++) x[t] = t == column ? 1.0f : 0.0f;
#pragma unroll
  for (uint i = 0; i < 15; i++) {
#pragma unroll
    for (uint t = i + 1; t < 16; t++) x[t] = fma(-block[t * STRIDE + i], x[i], x[t]);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint t = 0; t < 16; t++) block[t * STRIDE + column] = x[t];
}

// The blocks of 16 by 16 below diagonal block j of the inverse, from the top down, times b of their columns: block (i, j) is
// minus the inverse of diagonal block i, times the sum over k from j to i-1 of L(i, k) times block (k, j).
INLINE void invert_below(device float* out, threadgroup const float* l, threadgroup const float* strengths, uint j) {
  simdgroup_float8x8 column[16];  // four blocks
#pragma unroll
  for (uint i = 0; i < 4; i++) {
    if (i < j) continue;
    if (i == j) {
      load_square(column + 4 * i, l + i * (16 * STRIDE + 16), STRIDE);
    } else {
      simdgroup_float8x8 a[4], sum[4];
      clear<4>(sum);
#pragma unroll
      for (uint k = 0; k < i; k++) {
        if (k < j) continue;
        load_square(a, l + i * 16 * STRIDE + k * 16, STRIDE);
        multiply_block<float, 2, 2, 2>(sum, a, column + 4 * k);
      }
      load_square(a, l + i * (16 * STRIDE + 16), STRIDE);
#pragma unroll
      for (uint n = 0; n < 4; n++) {
        a[n].thread_elements()[0] = -a[n].thread_elements()[0];
        a[n].thread_elements()[1] = -a[n].thread_elements()[1];
      }
      clear<4>(column + 4 * i);
      multiply_block<float, 2, 2, 2>(column + 4 * i, a, sum);
    }
#pragma unroll
    for (uint n = 0; n < 4; n++) {
      simdgroup_float8x8 scaled = column[4 * i + n];
      scale_columns(scaled, strengths + (j * 16 + n % 2 * 8) * 8);
      simdgroup_store(scaled, out + (i * 16 + n / 2 * 8) * CHUNK + j * 16 + n % 2 * 8, CHUNK);
    }
  }
}

// A threadgroup for a value head and a chunk. Of both matrices, blocks of 16 by 16 above the diagonal are left out.
[[max_total_threads_per_threadgroup(256)]] kernel void prefill_delta_solve(
    device const float* queries [[buffer(0)]],
    device const float* keys [[buffer(1)]],
    device float2* gates [[buffer(2)]],
    device float* inverses [[buffer(3)]],
    device float* reads [[buffer(4)]],
    constant DeltaChunkParams& p [[buffer(5)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float l[CHUNK * STRIDE], strengths[CHUNK * 8];  // l: ratios, then L, then what is inverted of it
  threadgroup float2 own[CHUNK];
  const uint head = group.y, key_head = head / (p.value_heads / p.key_heads), stride = p.key_heads * KEY_DIM;
  const ulong first = ulong(group.x) * CHUNK, place = (ulong(head) * p.chunks + group.x) * (CHUNK * CHUNK);
  weigh_decays(l, strengths, own, gates + first * p.value_heads + head, p.value_heads, thread_id);

  // Simdgroups 0 to 3 multiply keys with keys, the others queries with keys: each the 16 rows of its pair.
  const uint pair = simd % 4;
  device const float* k = keys + first * stride + key_head * KEY_DIM;
  device const float* rows = (simd < 4 ? keys : queries) + (first + pair * 16) * stride + key_head * KEY_DIM;
  simdgroup_float8x8 acc[16];
  clear<16>(acc);
#pragma unroll 2
  for (uint d = 0; d < KEY_DIM; d += 16) {
    simdgroup_float8x8 a[4], b[4];
    load_square(a, rows + d, stride);
#pragma unroll
    for (uint j = 0; j < 4; j++) {
      if (j > pair) continue;
      load_turned(b, k + j * 16 * stride + d, stride);
      multiply_block<float, 2, 2, 2>(acc + 4 * j, a, b);
    }
  }
#pragma unroll
  for (uint i = 0; i < 16; i++) {
    const uint row = pair * 16 + i % 4 / 2 * 8, column = i / 4 * 16 + i % 2 * 8;
    if (i / 4 > pair) continue;
    simdgroup_float8x8 r;
    simdgroup_load(r, l + row * STRIDE + column, STRIDE);
    multiply_elements(acc[i], r);
    if (simd < 4) scale_rows(acc[i], strengths + row * 8);
    else simdgroup_store(acc[i], reads + place + row * CHUNK + column, CHUNK);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd < 4) {
#pragma unroll
    for (uint i = 0; i < 16; i++) {
      if (i / 4 <= pair) simdgroup_store(acc[i], l + (pair * 16 + i % 4 / 2 * 8) * STRIDE + i / 4 * 16 + i % 2 * 8, STRIDE);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd < 2) invert_diagonal(l, thread_id);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd < 4) invert_below(inverses + place, l, strengths, simd);
}

// What a threadgroup of prefill_delta_chunk goes through: one value head.
struct Head {
  device const float* queries;
  device const float* keys;
  device float* values;  // of its slice; then outputs
  device const float2* decays;
  device const float* inverses;
  device const float* reads;
};

// Threadgroup memory.
struct Room {
  threadgroup float* state;  // [R][D+4], transposed when read; then writes, [CHUNK][R+4]
  threadgroup float* wanted;  // [CHUNK][R+4]
  threadgroup float* decay;  // [CHUNK][8]: g, eight times
  threadgroup float* rest;   // R[last], likewise
};

// Runs R rows of a state through all chunks. The state's columns are spread over the simdgroups, in registers.
template <int D, int R>
INLINE void run_chunks(Room m, Head h, device const float* state_in, device float* state_out, constant DeltaChunkParams& p,
                       uint thread_id, uint simd) {
  constexpr int N = D / 64, H = R / 16;  // matrices of a simdgroup's state columns, of half the rows
  constexpr uint S = D + 4, W = R + 4;
  const uint keys = p.key_heads * D, values = p.value_heads * VALUE_DIM, pair = simd % 4;
  simdgroup_float8x8 state[2 * H * N], a[4], b[4], wide[2 * N];
#pragma unroll
  for (uint i = 0; i < 2 * H * N; i++) simdgroup_load(state[i], state_in + i / N * 8 * D + (simd * N + i % N) * 8, D);
  for (uint c = 0; c < p.chunks; c++) {
    const ulong first = ulong(c) * CHUNK;
#pragma unroll
    for (uint i = 0; i < 2 * H * N; i++) simdgroup_store(state[i], m.state + i / N * 8 * S + (simd * N + i % N) * 8, S);
    for (uint i = thread_id; i < CHUNK * 8; i += 256) {
      const float2 d = h.decays[(first + i / 8) * p.value_heads];
      m.decay[i] = d.x;
      m.rest[i] = d.y;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // What the state says: simdgroups 0 to 3 read it with keys, the others with queries.
    simdgroup_float8x8 said[4 * H];
    clear<4 * H>(said);
    device const float* rows = (simd < 4 ? h.keys : h.queries) + (first + pair * 16) * keys;
#pragma unroll 4
    for (uint d = 0; d < D; d += 16) {
      load_square(a, rows + d, keys);
#pragma unroll
      for (uint n = 0; n < H; n++) {
        load_turned(b, m.state + n * 16 * S + d, S);
        multiply_block<float, 2, 2, 2>(said + 4 * n, a, b);
      }
    }
#pragma unroll
    for (uint i = 0; i < 4 * H; i++) {
      const uint row = pair * 16 + i % 4 / 2 * 8, column = i / 4 * 16 + i % 2 * 8;
      scale_rows(said[i], m.decay + row * 8);
      if (simd >= 4) continue;
      simdgroup_float8x8 v;
      simdgroup_load(v, h.values + (first + row) * values + column, values);
      v.thread_elements()[0] -= said[i].thread_elements()[0];
      v.thread_elements()[1] -= said[i].thread_elements()[1];
      simdgroup_store(v, m.wanted + row * W + column, W);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Writes: 16 tokens and half the rows for each simdgroup.
    simdgroup_float8x8 writes[2 * H];
    clear<2 * H>(writes);
    const uint tokens = simd / 2 * 16, half_row = simd % 2 * H * 8;
    for (uint k = 0; k <= tokens; k += 16) {
      simdgroup_float8x8 w[2 * H];
      load_square(a, h.inverses + first * CHUNK + tokens * CHUNK + k, CHUNK);
#pragma unroll
      for (uint i = 0; i < 2 * H; i++) simdgroup_load(w[i], m.wanted + (k + i / H * 8) * W + half_row + i % H * 8, W);
      multiply_block<float, 2, H, 2>(writes, a, w);
    }
#pragma unroll
    for (uint i = 0; i < 2 * H; i++) simdgroup_store(writes[i], m.state + (tokens + i / H * 8) * W + half_row + i % H * 8, W);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    if (simd >= 4) {
      for (uint k = 0; k <= pair * 16; k += 16) {
        load_square(a, h.reads + first * CHUNK + pair * 16 * CHUNK + k, CHUNK);
#pragma unroll
        for (uint n = 0; n < H; n++) {
          load_square(b, m.state + k * W + n * 16, W);
          multiply_block<float, 2, 2, 2>(said + 4 * n, a, b);
        }
      }
#pragma unroll
      for (uint i = 0; i < 4 * H; i++) {
        simdgroup_store(said[i], h.values + (first + pair * 16 + i % 4 / 2 * 8) * values + i / 4 * 16 + i % 2 * 8, values);
      }
    }
    const float all = m.decay[(CHUNK - 1) * 8];
#pragma unroll
    for (uint i = 0; i < 2 * H * N; i++) {
      state[i].thread_elements()[0] *= all;
      state[i].thread_elements()[1] *= all;
    }
#pragma unroll 2
    for (uint k = 0; k < CHUNK; k += 16) {
#pragma unroll
      for (uint i = 0; i < 2 * N; i++) simdgroup_load(wide[i], h.keys + (first + k + i / N * 8) * keys + (simd * N + i % N) * 8, keys);
#pragma unroll
      for (uint n = 0; n < H; n++) {
        load_turned(a, m.state + k * W + n * 16, W);
#pragma unroll
        for (uint i = 0; i < 4; i++) scale_columns(a[i], m.rest + (k + i % 2 * 8) * 8);
        multiply_block<float, 2, N, 2>(state + n * 2 * N, a, wide);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (uint i = 0; i < 2 * H * N; i++) simdgroup_store(state[i], state_out + i / N * 8 * D + (simd * N + i % N) * 8, D);
}

// A threadgroup for SLICE rows of a value head's state.
[[max_total_threads_per_threadgroup(256)]] kernel void prefill_delta_chunk(
    device const float* queries [[buffer(0)]],
    device const float* keys [[buffer(1)]],
    device float* values [[buffer(2)]],
    device const float2* decays [[buffer(3)]],
    device const float* inverses [[buffer(4)]],
    device const float* reads [[buffer(5)]],
    device float* recurrent [[buffer(6)]],
    device const Step* step [[buffer(7)]],
    constant DeltaChunkParams& p [[buffer(8)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float state[32 * (128 + 4)], wanted[CHUNK * (32 + 4)], decay[CHUNK * 8], rest[CHUNK * 8];
  Room m = {state, wanted, decay, rest};
  const uint head = group.y, first = group.x * SLICE, key = head / (p.value_heads / p.key_heads) * KEY_DIM;
  const ulong matrices = ulong(head) * p.chunks * (CHUNK * CHUNK);
  Head h = {queries + key, keys + key, values + head * VALUE_DIM + first, decays + head, inverses + matrices, reads + matrices};
  const ulong in = ulong(step->slot_in) * p.layers + p.layer, to = ulong(step->slot_out) * p.layers + p.layer;
  device const float* state_in = recurrent + ((in * p.value_heads + head) * VALUE_DIM + first) * KEY_DIM;
  device float* state_out = recurrent + ((to * p.value_heads + head) * VALUE_DIM + first) * KEY_DIM;
  if (KEY_DIM == 64) run_chunks<64, 32>(m, h, state_in, state_out, p, thread_id, simd);
  else if (KEY_DIM == 128) run_chunks<128, 32>(m, h, state_in, state_out, p, thread_id, simd);
  else if (KEY_DIM == 192) run_chunks<192, 16>(m, h, state_in, state_out, p, thread_id, simd);
  else run_chunks<256, 16>(m, h, state_in, state_out, p, thread_id, simd);
}
