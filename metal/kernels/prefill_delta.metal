// A chunk of tokens of the Gated DeltaNet mixer: prefill_delta_prep turns projections into normed queries and keys, values
// and gates; prefill_delta_scan (or those of prefill_delta_chunk.metal) runs the recurrence, and leaves outputs in the
// values' place; prefill_delta_gate norms and gates them.
//
// Everything between them is fp32, and here tokens are taken one by one, so bits don't depend on where chunks are cut.

constant uint KEY_DIM [[function_constant(0)]];    // a multiple of 32, at most 256
constant uint VALUE_DIM [[function_constant(1)]];  // as KEY_DIM
constant uint TAPS [[function_constant(2)]];       // 2 to 8
constant bool FLOATS [[function_constant(3)]];     // projections are f32, else bf16
constant bool WINDOW [[function_constant(4)]];     // the convolution's window is f32, else bf16

constant constexpr uint TOKENS = 16;      // of a simdgroup of prefill_delta_prep
constant constexpr uint GATED = 8;        // tokens of a threadgroup of prefill_delta_gate
constant constexpr uint ROWS = 32;        // state rows of a threadgroup of prefill_delta_scan
constant constexpr uint LANES = 8;        // of a state row
constant constexpr uint AHEAD = 4;        // tokens that prefill_delta_prep loads at a time
constant constexpr float L2_EPS = 1e-6f;  // on the sum of squares

struct PrefillDeltaParams {
  uint rows;  // tokens
  uint key_heads;
  uint value_heads;
  uint layer;
  uint layers;
  uint width;  // elements of a token's projections
  uint qkv;    // elements to queries, keys and values
  uint z;
  uint b;
  uint a;
  float eps;
  uint padded;  // tokens that prefill_delta_prep fills: those behind the last with what changes nothing
};

INLINE float projected(device const bfloat* proj, ulong at) {
  return FLOATS ? ((device const float*)proj)[at] : float(proj[at]);
}

INLINE float windowed(device const bfloat* window, ulong at) {
  return WINDOW ? ((device const float*)window)[at] : float(window[at]);
}

// log(1 + e^x), exact also where e^x is small.
INLINE float softplus(float x) {
  const float t = exp(-fabs(x)), u = 1.0f + t;
  return max(x, 0.0f) + (u == 1.0f ? t : log(u) * (t / (u - 1.0f)));
}

// A simdgroup's share of the channels: those of one head, 32 apart in a lane.
struct Channels {
  uint first;   // of this lane, in projections and window
  uint head;
  uint heads;   // of this kind
  float scale;  // length to give to a head; 0: values, which keep theirs
};

// One token: N channels of the inputs x of the taps before, which move on, and u, to every 32nd place of out.
template <int N>
INLINE void convolve_token(device float* out, thread float* x, thread const float* w, thread const float* u, float length) {
  float y[N];
#pragma unroll
  for (uint i = 0; i < N; i++) {
    x[(TAPS - 1) * N + i] = u[i];
    y[i] = 0.0f;
#pragma unroll
    for (uint j = 0; j < TAPS; j++) y[i] += w[j * N + i] * x[j * N + i];
    y[i] = silu(y[i]);
#pragma unroll
    for (uint j = 0; j + 1 < TAPS; j++) x[j * N + i] = x[(j + 1) * N + i];
  }
  float scale = 1.0f;
  if (length != 0.0f) {
    float squares = 0.0f;
#pragma unroll
    for (uint i = 0; i < N; i++) squares = fma(y[i], y[i], squares);
    scale = rsqrt(simd_sum(squares) + L2_EPS) * length;
  }
#pragma unroll
  for (uint i = 0; i < N; i++) out[i * 32] = y[i] * scale;
}

// Convolves N times 32 channels for the tokens from t to `end`, and moves the window on where they are the last.
template <int N>
INLINE void convolve(device const bfloat* proj, device const float* taps, device const bfloat* before, device bfloat* after,
                     device float* out, constant PrefillDeltaParams& p, Channels c, uint t, uint end, uint channels, uint lane) {
  float x[8 * N], w[8 * N];  // [tap][N]
#pragma unroll
  for (uint j = 0; j < TAPS; j++) {
    const int row = int(t + j) - int(TAPS - 1);
#pragma unroll
    for (uint i = 0; i < N; i++) {
      const uint channel = c.first + i * 32;
      w[j * N + i] = taps[j * channels + channel];
      x[j * N + i] = 0.0f;
      if (j + 1 < TAPS) x[j * N + i] = row < 0 ? windowed(before, ulong(t + j) * channels + channel) : projected(proj, ulong(row) * p.width + p.qkv + channel);
      if (!WINDOW && FLOATS) x[j * N + i] = float(bfloat(x[j * N + i]));
    }
  }
  for (; t < end; t += AHEAD) {
    float u[AHEAD * N];
#pragma unroll
    for (uint s = 0; s < AHEAD; s++) {
#pragma unroll
      for (uint i = 0; i < N; i++) {
        u[s * N + i] = projected(proj, ulong(min(t + s, end - 1)) * p.width + p.qkv + c.first + i * 32);
        if (!WINDOW && FLOATS) u[s * N + i] = float(bfloat(u[s * N + i]));  // as the window will say
      }
    }
#pragma unroll
    for (uint s = 0; s < AHEAD; s++) {
      if (t + s < end) convolve_token<N>(out + (ulong(t + s) * c.heads + c.head) * (32 * N) + lane, x, w, u + s * N, c.scale);
    }
  }
  if (end < p.rows) return;
#pragma unroll
  for (uint j = 0; j + 1 < TAPS; j++) {
#pragma unroll
    for (uint i = 0; i < N; i++) {
      const ulong at = ulong(j) * channels + c.first + i * 32;
      if (WINDOW) ((device float*)after)[at] = x[j * N + i];
      else after[at] = bfloat(x[j * N + i]);
    }
  }
}

// Zeros of a head of so many dims, for the tokens from t to end.
INLINE void pad(device float* out, uint head, uint heads, uint dims, uint t, uint end, uint lane) {
  for (; t < end; t++) {
    for (uint i = lane; i < dims; i += 32) out[(ulong(t) * heads + head) * dims + i] = 0.0f;
  }
}

// A simdgroup for each head of queries, of keys, of values, and one for the gates, times TOKENS tokens.
kernel void prefill_delta_prep(
    device const bfloat* proj [[buffer(0)]],
    device const float* taps [[buffer(1)]],
    device const float* decay [[buffer(2)]],
    device const float* dt_bias [[buffer(3)]],
    device bfloat* conv [[buffer(4)]],
    device const Step* step [[buffer(5)]],
    device float* queries [[buffer(6)]],
    device float* keys [[buffer(7)]],
    device float* values [[buffer(8)]],
    device float2* gates [[buffer(9)]],
    constant PrefillDeltaParams& p [[buffer(10)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint unit = group.x, t = group.y * TOKENS, end = min(t + TOKENS, p.rows), padded = min(t + TOKENS, p.padded);
  if (unit == 2 * p.key_heads + p.value_heads) {
    for (uint i = lane; i < (padded - t) * p.value_heads; i += 32) {
      const uint token = t + i / p.value_heads, head = i % p.value_heads;
      if (token >= p.rows) {
        gates[ulong(token) * p.value_heads + head] = float2(1.0f, 0.0f);
        continue;
      }
      const ulong row = ulong(token) * p.width;
      const float alpha = exp(decay[head] * softplus(projected(proj, row + p.a + head) + dt_bias[head]));
      gates[ulong(token) * p.value_heads + head] = float2(alpha, sigmoid(projected(proj, row + p.b + head)));
    }
    return;
  }
  const uint all = p.key_heads * KEY_DIM, channels = 2 * all + p.value_heads * VALUE_DIM;
  const ulong window = ulong(TAPS - 1) * channels * (WINDOW ? 2 : 1);  // bfloats
  device const bfloat* before = conv + (ulong(step->slot_in) * p.layers + p.layer) * window;
  device bfloat* after = conv + (ulong(step->slot_out) * p.layers + p.layer) * window;
  if (unit >= 2 * p.key_heads) {
    const uint head = unit - 2 * p.key_heads;
    pad(values, head, p.value_heads, VALUE_DIM, max(t, p.rows), padded, lane);
    if (t >= p.rows) return;
    Channels c = {2 * all + head * VALUE_DIM + lane, head, p.value_heads, 0.0f};
    if (VALUE_DIM == 32) convolve<1>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 64) convolve<2>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 96) convolve<3>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 128) convolve<4>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 160) convolve<5>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 192) convolve<6>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else if (VALUE_DIM == 224) convolve<7>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    else convolve<8>(proj, taps, before, after, values, p, c, t, end, channels, lane);
    return;
  }
  const bool key = unit >= p.key_heads;
  const uint head = unit % p.key_heads;
  Channels c = {unit * KEY_DIM + lane, head, p.key_heads, key ? 1.0f : rsqrt(float(KEY_DIM))};
  device float* to = key ? keys : queries;
  pad(to, head, p.key_heads, KEY_DIM, max(t, p.rows), padded, lane);
  if (t >= p.rows) return;
  if (KEY_DIM == 32) convolve<1>(proj, taps, before, after, to, p, c, t, end, channels, lane);
  else if (KEY_DIM == 64) convolve<2>(proj, taps, before, after, to, p, c, t, end, channels, lane);
  else if (KEY_DIM == 96) convolve<3>(proj, taps, before, after, to, p, c, t, end, channels, lane);
  else if (KEY_DIM == 128) convolve<4>(proj, taps, before, after, to, p, c, t, end, channels, lane);
  else if (KEY_DIM == 192) convolve<6>(proj, taps, before, after, to, p, c, t, end, channels, lane);
  else convolve<8>(proj, taps, before, after, to, p, c, t, end, channels, lane);
}

// What a threadgroup of prefill_delta_scan reads of one key head, and the rows of one value head.
struct Scan {
  device const float4* queries;
  device const float4* keys;
  device float* values;
  device const float2* gates;
  uint heads;  // float4 from a token's queries to the next one's: of all key heads
};

// Loads this thread's P pieces of the queries and keys of BLOCK tokens from t on; there are none behind the last.
template <int VECS, int BLOCK, int P>
INLINE void fetch_block(thread float4* piece, Scan s, uint t, uint rows, uint thread_id, uint threads) {
  constexpr uint ROW = VECS * LANES;  // float4 of a token's queries or keys
#pragma unroll
  for (uint i = 0; i < P; i++) {
    const uint at = thread_id + i * threads, token = t + at / (2 * ROW), x = at % (2 * ROW);
    piece[i] = float4(0.0f);
    if (at < BLOCK * 2 * ROW && token < rows) piece[i] = (x < ROW ? s.queries : s.keys)[ulong(token) * s.heads + x % ROW];
  }
}

// What the next BLOCK tokens bring for this lane's rows: lane l has the values and gates of token t + l%LANES.
template <int SETS>
INLINE void fetch_values(thread float* v, thread float2& gate, Scan s, constant PrefillDeltaParams& p, uint t, uint last, uint row,
                         uint lane) {
  const uint token = t + lane % LANES;
  gate = float2(1.0f, 0.0f);  // leaves the state as it is
#pragma unroll
  for (uint r = 0; r < SETS; r++) v[r] = 0.0f;
  if (token < last) {
    gate = s.gates[ulong(token) * p.value_heads];
#pragma unroll
    for (uint r = 0; r < SETS; r++) v[r] = s.values[ulong(token) * p.value_heads * VALUE_DIM + row + r * (32 / LANES)];
  }
}

// Runs ROWS rows of a state through all tokens. A row belongs to LANES lanes, each with VECS times four of its key dims;
// a simdgroup has SETS rows for each of those. Queries and keys of BLOCK tokens are staged, the next ones on their way.
template <int VECS, int SETS, int BLOCK>
INLINE void scan(threadgroup float4* room, Scan s, device const float4* state_in, device float4* state_out,
                 constant PrefillDeltaParams& p, uint first, uint thread_id, uint simd, uint lane) {
  constexpr uint THREADS = ROWS * LANES / SETS, ROW = VECS * LANES;
  constexpr uint P = (BLOCK * 2 * ROW + THREADS - 1) / THREADS;
  const uint row = first + simd * SETS * (32 / LANES) + lane / LANES;
  float4 state[SETS * VECS], piece[P];
  float v[SETS], next[SETS], o[SETS];
  float2 gate, next_gate;
#pragma unroll
  for (uint r = 0; r < SETS; r++) {
#pragma unroll
    for (uint n = 0; n < VECS; n++) state[r * VECS + n] = state_in[(row + r * (32 / LANES)) * ROW + n * LANES + lane % LANES];
    o[r] = 0.0f;
  }
  fetch_block<VECS, BLOCK, P>(piece, s, 0, p.rows, thread_id, THREADS);
  fetch_values<SETS>(next, next_gate, s, p, 0, min(uint(BLOCK), p.rows), row, lane);
  uint parity = 0;
  for (uint t = 0; t < p.rows; t += BLOCK) {
    threadgroup float4* block = room + parity * (BLOCK * 2 * ROW);
    parity ^= 1;
#pragma unroll
    for (uint i = 0; i < P; i++) {
      if (thread_id + i * THREADS < BLOCK * 2 * ROW) block[thread_id + i * THREADS] = piece[i];
    }
    gate = next_gate;
#pragma unroll
    for (uint r = 0; r < SETS; r++) v[r] = next[r];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    fetch_block<VECS, BLOCK, P>(piece, s, t + BLOCK, p.rows, thread_id, THREADS);
    fetch_values<SETS>(next, next_gate, s, p, t + BLOCK, min(t + 2 * BLOCK, p.rows), row, lane);
#pragma unroll
    for (uint b = 0; b < BLOCK; b++) {
      float4 q[VECS], k[VECS];
#pragma unroll
      for (uint n = 0; n < VECS; n++) {
        q[n] = block[b * 2 * ROW + n * LANES + lane % LANES];
        k[n] = block[b * 2 * ROW + ROW + n * LANES + lane % LANES];
      }
      const float alpha = simd_shuffle(gate.x, ushort(b)), beta = simd_shuffle(gate.y, ushort(b));
#pragma unroll
      for (uint r = 0; r < SETS; r++) {
        float4 products = state[r * VECS] * k[0];
#pragma unroll
        for (uint n = 1; n < VECS; n++) products = fma(state[r * VECS + n], k[n], products);
        const float predicted = sum_of_eight((products.x + products.y) + (products.z + products.w));
        const float value = simd_shuffle(v[r], ushort(lane / LANES * LANES + b));
        const float delta = beta * (value - alpha * predicted);
        float4 read = float4(0.0f);
#pragma unroll
        for (uint n = 0; n < VECS; n++) {
          state[r * VECS + n] = fma(k[n], float4(delta), state[r * VECS + n] * alpha);
          read = fma(state[r * VECS + n], q[n], read);
        }
        const float sum = sum_of_eight((read.x + read.y) + (read.z + read.w));
        if (lane % LANES == b) o[r] = sum;
      }
    }
    if (lane % LANES < BLOCK && t + lane % LANES < p.rows) {
#pragma unroll
      for (uint r = 0; r < SETS; r++) s.values[ulong(t + lane % LANES) * p.value_heads * VALUE_DIM + row + r * (32 / LANES)] = o[r];
    }
  }
#pragma unroll
  for (uint r = 0; r < SETS; r++) {
#pragma unroll
    for (uint n = 0; n < VECS; n++) state_out[(row + r * (32 / LANES)) * ROW + n * LANES + lane % LANES] = state[r * VECS + n];
  }
}

// A threadgroup for ROWS rows of a value head's state.
kernel void prefill_delta_scan(
    device const float4* queries [[buffer(0)]],
    device const float4* keys [[buffer(1)]],
    device float* values [[buffer(2)]],
    device const float2* gates [[buffer(3)]],
    device float* recurrent [[buffer(4)]],
    device const Step* step [[buffer(5)]],
    constant PrefillDeltaParams& p [[buffer(6)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 room[1024];  // two blocks
  const uint head = group.y, first = group.x * ROWS;
  const uint key_head = head / (p.value_heads / p.key_heads) * (KEY_DIM / 4);
  Scan s = {queries + key_head, keys + key_head, values + head * VALUE_DIM, gates + head, p.key_heads * (KEY_DIM / 4)};
  const ulong in = ulong(step->slot_in) * p.layers + p.layer, to = ulong(step->slot_out) * p.layers + p.layer;
  device const float4* state_in = (device const float4*)(recurrent + (in * p.value_heads + head) * (VALUE_DIM * KEY_DIM));
  device float4* state_out = (device float4*)(recurrent + (to * p.value_heads + head) * (VALUE_DIM * KEY_DIM));
  if (KEY_DIM == 32) scan<1, 2, 8>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
  else if (KEY_DIM == 64) scan<2, 2, 8>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
  else if (KEY_DIM == 96) scan<3, 2, 8>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
  else if (KEY_DIM == 128) scan<4, 2, 8>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
  else if (KEY_DIM == 192) scan<6, 2, 4>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
  else scan<8, 2, 4>(room, s, state_in, state_out, p, first, thread_id, simd, lane);
}

// A simdgroup for each value head of each token: RMS norm and output gate.
kernel void prefill_delta_gate(
    device const float* o [[buffer(0)]],
    device const bfloat* proj [[buffer(1)]],
    device const float* gain [[buffer(2)]],
    device half* out [[buffer(3)]],
    constant PrefillDeltaParams& p [[buffer(4)]],
    uint2 group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  const uint head = group.x, t = group.y * GATED + simd;
  if (t >= p.rows) return;
  const ulong at = (ulong(t) * p.value_heads + head) * VALUE_DIM + lane, z = ulong(t) * p.width + p.z + head * VALUE_DIM + lane;
  float x[8], sum = 0.0f;
#pragma unroll
  for (uint i = 0; i < VALUE_DIM / 32; i++) {
    x[i] = o[at + i * 32];
    sum = fma(x[i], x[i], sum);
  }
  const float scale = rsqrt(simd_sum(sum) / float(VALUE_DIM) + p.eps);
#pragma unroll
  for (uint i = 0; i < VALUE_DIM / 32; i++) {
    out[at + i * 32] = half(saturated(x[i] * scale * gain[lane + i * 32] * silu(projected(proj, z + i * 32))));
  }
}
