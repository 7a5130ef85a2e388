// One token of the Gated DeltaNet mixer, a threadgroup for each value head: convolution window and SiLU, L2 norms, gates,
// recurrence, gated norm. A state row (one value dim) belongs to LANES neighbouring lanes, of which each holds VECS times
// four key dims, and a simdgroup keeps four of its row groups in registers. The loads of the first four come before
// everything else, since they take longest.
//
// The state slots read and written must be different ones: value heads of the same key head read the window that the
// first of them writes.

constant uint KEY_DIM [[function_constant(0)]];    // 32, 64, 96, 128, 192 or 256
constant uint VALUE_DIM [[function_constant(1)]];  // a multiple of 32, at most 256
constant uint TAPS [[function_constant(2)]];       // 2 to 8

constant constexpr uint MOST = 256;  // dims of a head
constant constexpr int ROWS = 4;     // row groups that a simdgroup holds at once
constant constexpr float L2_EPS = 1e-6f;  // on the sum of squares

struct DeltaParams {
  uint key_heads;
  uint value_heads;
  uint layer;
  uint layers;
  uint qkv;  // elements from the start of the projections
  uint z;
  uint b;
  uint a;
  uint simdgroups;
  float eps;
};

// The dims of one head after convolution, and what its recurrence reads.
struct DeltaHead {
  threadgroup float* q;
  threadgroup float* k;
  threadgroup float* v;
  threadgroup float* o;
  threadgroup float* gates;  // decay, write strength
};

// Convolves one channel of the current token with the window before it, which moves on in `after` where `keep` says so.
// All loads come first: the compiler must keep them in order with the stores.
INLINE float convolve(device const bfloat* u, device const float* taps, device const bfloat* before, device bfloat* after,
                      uint channel, uint channels, bool keep) {
  bfloat x[8];
  float w[8];
#pragma unroll
  for (uint j = 0; j < TAPS; j++) {
    x[j] = j + 1 < TAPS ? before[j * channels + channel] : u[channel];
    w[j] = taps[j * channels + channel];
  }
  float sum = 0.0f;
#pragma unroll
  for (uint j = 0; j < TAPS; j++) {
    sum += w[j] * float(x[j]);
    if (keep && j > 0) after[(j - 1) * channels + channel] = x[j];
  }
  return silu(sum);
}

// log(1 + e^x), exact also where e^x is small.
INLINE float softplus(float x) {
  const float t = exp(-fabs(x)), u = 1.0f + t;
  return max(x, 0.0f) + (u == 1.0f ? t : log(u) * (t / (u - 1.0f)));
}

// The sum over each LANES neighbouring lanes, in all of them.
template <int LANES>
INLINE float sum_over(float x) {
  if (LANES == 32) return simd_sum(x);
  x += simd_shuffle_xor(x, 1);
  x += simd_shuffle_xor(x, 2);
  x += simd_shuffle_xor(x, 4);
  if (LANES == 16) x += simd_shuffle_xor(x, 8);
  return x;
}

INLINE float dot4(float4 a, float4 b, float sum) {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// The four key dims of vector n of this lane, scaled to an L2 norm of `length`.
template <int LANES, int VECS>
INLINE void unit_vector(thread float4* to, threadgroup const float* from, float length, uint lane) {
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < VECS; n++) {
    threadgroup const float* x = from + (n * LANES + lane % LANES) * 4;
    to[n] = float4(x[0], x[1], x[2], x[3]);
    sum = dot4(to[n], to[n], sum);
  }
  const float scale = rsqrt(sum_over<LANES>(sum) + L2_EPS) * length;
#pragma unroll
  for (int n = 0; n < VECS; n++) to[n] *= scale;
}

// Row group r of the simdgroup's holds VALUE_DIM row simdgroups apart from r-1's.
template <int LANES>
INLINE uint row_at(uint group, uint lane) { return group * (32 / LANES) + lane / LANES; }

template <int LANES, int VECS>
INLINE void load_rows(thread float4* s, device const float4* from, uint group, uint simdgroups, uint lane) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    device const float4* row = from + row_at<LANES>(group + r * simdgroups, lane) * (KEY_DIM / 4) + lane % LANES;
#pragma unroll
    for (int n = 0; n < VECS; n++) s[r * VECS + n] = row[n * LANES];
  }
}

// Decays the rows, replaces what they predict for k by what v says, and reads them with q. The read after the write is
// the read before it plus delta*(k.q), so both sums over a row need only the decayed state.
template <int LANES, int VECS>
INLINE void advance_rows(thread float4* s, device float4* to, DeltaHead h, thread const float4* k, thread const float4* q,
                         float kq, float alpha, float beta, uint group, uint simdgroups, uint lane) {
  float predicted[ROWS], read[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    predicted[r] = 0.0f;
    read[r] = 0.0f;
#pragma unroll
    for (int n = 0; n < VECS; n++) {
      s[r * VECS + n] *= alpha;
      predicted[r] = dot4(s[r * VECS + n], k[n], predicted[r]);
      read[r] = dot4(s[r * VECS + n], q[n], read[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const uint row = row_at<LANES>(group + r * simdgroups, lane);
    const float delta = beta * (h.v[row] - sum_over<LANES>(predicted[r]));
    const float o = fma(delta, kq, sum_over<LANES>(read[r]));
    device float4* at = to + row * (KEY_DIM / 4) + lane % LANES;
#pragma unroll
    for (int n = 0; n < VECS; n++) at[n * LANES] = fma(k[n], float4(delta), s[r * VECS + n]);
    if (lane % LANES == 0) h.o[row] = o;
  }
}

// Everything up to the gated norm. A simdgroup of index simd owns the row groups simd, simd+simdgroups, ...
template <int LANES, int VECS>
INLINE void delta_head(DeltaHead h, device const bfloat* proj, device const float* taps, device const float* decay,
                       device const float* dt_bias, device const bfloat* before, device bfloat* after,
                       device const float4* state_in, device float4* state_out, constant DeltaParams& p, uint head,
                       uint thread_id, uint simd, uint lane) {
  float4 s[ROWS * VECS];
  load_rows<LANES, VECS>(s, state_in, simd, p.simdgroups, lane);

  const uint per = p.value_heads / p.key_heads, key_head = head / per;
  const uint keys = p.key_heads * KEY_DIM, channels = 2 * keys + p.value_heads * VALUE_DIM;
  const bool first = head % per == 0;
  for (uint i = thread_id; i < 2 * KEY_DIM + VALUE_DIM; i += p.simdgroups * 32) {
    uint channel = key_head * KEY_DIM + i;
    if (i >= 2 * KEY_DIM) channel = 2 * keys + head * VALUE_DIM + i - 2 * KEY_DIM;
    else if (i >= KEY_DIM) channel = keys + key_head * KEY_DIM + i - KEY_DIM;
    const float c = convolve(proj + p.qkv, taps, before, after, channel, channels, first || i >= 2 * KEY_DIM);
    if (i < KEY_DIM) h.q[i] = c;
    else if (i < 2 * KEY_DIM) h.k[i - KEY_DIM] = c;
    else h.v[i - 2 * KEY_DIM] = c;
  }
  if (simd + 1 == p.simdgroups) {  // the one with the least channels
    const float alpha = exp(decay[head] * softplus(float(proj[p.a + head]) + dt_bias[head]));
    const float beta = sigmoid(float(proj[p.b + head]));
    if (lane == 0) {
      h.gates[0] = alpha;
      h.gates[1] = beta;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float alpha = h.gates[0], beta = h.gates[1];

  float4 k[VECS], q[VECS];
  unit_vector<LANES, VECS>(k, h.k, 1.0f, lane);
  unit_vector<LANES, VECS>(q, h.q, rsqrt(float(KEY_DIM)), lane);
  float kq = 0.0f;
#pragma unroll
  for (int n = 0; n < VECS; n++) kq = dot4(k[n], q[n], kq);
  kq = sum_over<LANES>(kq);
  const uint groups = VALUE_DIM * LANES / 32;  // a multiple of simdgroups*ROWS
  for (uint g = simd; g < groups; g += p.simdgroups * ROWS) {
    if (g != simd) load_rows<LANES, VECS>(s, state_in, g, p.simdgroups, lane);
    advance_rows<LANES, VECS>(s, state_out, h, k, q, kq, alpha, beta, g, p.simdgroups, lane);
  }
}

kernel void delta(
    device const bfloat* proj [[buffer(0)]],
    device const float* taps [[buffer(1)]],
    device const float* decay [[buffer(2)]],
    device const float* dt_bias [[buffer(3)]],
    device const float* gain [[buffer(4)]],
    device bfloat* conv [[buffer(5)]],
    device float* recurrent [[buffer(6)]],
    device const Step* step [[buffer(7)]],
    device bfloat* out [[buffer(8)]],
    constant DeltaParams& p [[buffer(9)]],
    uint head [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float q[MOST];
  threadgroup float k[MOST];
  threadgroup float v[MOST];
  threadgroup float o[MOST];
  threadgroup float gates[2];
  DeltaHead h = {q, k, v, o, gates};
  const ulong in = ulong(step->slot_in) * p.layers + p.layer, to = ulong(step->slot_out) * p.layers + p.layer;
  const ulong window = ulong(TAPS - 1) * (2 * p.key_heads * KEY_DIM + p.value_heads * VALUE_DIM);
  device const bfloat* before = conv + in * window;
  device bfloat* after = conv + to * window;
  device const float4* state_in = (device const float4*)(recurrent + (in * p.value_heads + head) * (VALUE_DIM * KEY_DIM));
  device float4* state_out = (device float4*)(recurrent + (to * p.value_heads + head) * (VALUE_DIM * KEY_DIM));

  if (KEY_DIM == 32) delta_head<8, 1>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 64) delta_head<16, 1>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 96) delta_head<8, 3>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 128) delta_head<32, 1>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 192) delta_head<16, 3>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else delta_head<32, 2>(h, proj, taps, decay, dt_bias, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  float sum = 0.0f;  // of o*o: every simdgroup adds up the whole head, in the same order
#pragma unroll
  for (uint i = 0; i < VALUE_DIM; i += 32) sum = fma(o[i + lane], o[i + lane], sum);
  const float scale = rsqrt(simd_sum(sum) / float(VALUE_DIM) + p.eps);
  for (uint i = thread_id; i < VALUE_DIM; i += p.simdgroups * 32) {
    const float z = float(proj[p.z + head * VALUE_DIM + i]);
    out[head * VALUE_DIM + i] = bfloat(o[i] * scale * gain[i] * silu(z));
  }
}
