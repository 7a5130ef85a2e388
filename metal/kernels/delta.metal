// One token of the Gated DeltaNet mixer, a threadgroup for each value head: convolution window and SiLU, L2 norms, gates,
// recurrence, gated norm. A state row (one value dim) belongs to LANES neighbouring lanes, of which each holds VECS times
// four key dims, and a simdgroup keeps ROWS of its row groups in registers. The loads of the first come before everything
// else, since they take longest.
//
// The state slots read and written must be different ones: value heads of the same key head read the window that the
// first of them writes.

constant uint KEY_DIM [[function_constant(0)]];    // 32, 64, 96, 128, 192 or 256
constant uint VALUE_DIM [[function_constant(1)]];  // a multiple of 32, at most 256
constant uint TAPS [[function_constant(2)]];       // 2 to 8

constant constexpr uint MOST = 256;  // dims of a head
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
  threadgroup float* factor;  // of the outputs: gain and gate
  threadgroup float* gates;   // decay, write strength
};

// Convolves one channel of the current token with the window before it, which moves on in `after` where `keep` says so.
// All loads come first: the compiler must keep them in order with the stores.
INLINE float convolve(device const float* u, device const float* taps, device const bfloat* before, device bfloat* after,
                      uint channel, uint channels, bool keep) {
  float x[8], w[8];
#pragma unroll
  for (uint j = 0; j < TAPS; j++) {
    x[j] = j + 1 < TAPS ? float(before[j * channels + channel]) : u[channel];
    w[j] = taps[j * channels + channel];
  }
  float sum = 0.0f;
#pragma unroll
  for (uint j = 0; j < TAPS; j++) {
    sum += w[j] * x[j];
    if (keep && j > 0) after[(j - 1) * channels + channel] = bfloat(x[j]);
  }
  return silu(sum);
}

// log(1 + e^x), exact also where e^x is small.
INLINE float softplus(float x) {
  const float t = exp(-fabs(x)), u = 1.0f + t;
  return max(x, 0.0f) + (u == 1.0f ? t : log(u) * (t / (u - 1.0f)));
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

// The sum over LANES neighbouring lanes of v[lane % N], of N = 4, 8 or 16 numbers a lane, at most LANES.
template <int LANES, int N>
INLINE float sum_of_each(thread float* v, uint lane) {
  if (N == 16) fold<8>(v, lane);
  if (N >= 8) fold<4>(v, lane);
  fold<2>(v, lane);
  fold<1>(v, lane);
  float sum = v[0];
  if (N < 8) sum += simd_shuffle_xor(sum, 4);
  if (N < 16 && LANES > 8) sum += simd_shuffle_xor(sum, 8);
  if (LANES > 16) sum += simd_shuffle_xor(sum, 16);
  return sum;
}

// What the neighbouring lane of index i has.
template <int LANES>
INLINE float from_neighbour(float x, uint i, uint lane) { return simd_shuffle(x, ushort(lane / LANES * LANES + i)); }

INLINE float dot4(float4 a, float4 b, float sum) {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Loads the four key dims of each vector of this lane.
template <int LANES, int VECS>
INLINE void load_dims(thread float4* to, threadgroup const float* from, uint lane) {
#pragma unroll
  for (int n = 0; n < VECS; n++) {
    threadgroup const float* x = from + (n * LANES + lane % LANES) * 4;
    to[n] = float4(x[0], x[1], x[2], x[3]);
  }
}

// Row group r of the simdgroup's holds VALUE_DIM row simdgroups apart from r-1's.
template <int LANES>
INLINE uint row_at(uint group, uint lane) { return group * (32 / LANES) + lane / LANES; }

template <int LANES, int VECS, int ROWS>
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
template <int LANES, int VECS, int ROWS>
INLINE void advance_rows(thread float4* s, device float4* to, DeltaHead h, thread const float4* k, thread const float4* q,
                         float kq, float alpha, float beta, uint group, uint simdgroups, uint lane) {
  float sums[2 * ROWS];  // of each row what k predicts, then what q reads
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    sums[r] = 0.0f;
    sums[ROWS + r] = 0.0f;
#pragma unroll
    for (int n = 0; n < VECS; n++) {
      s[r * VECS + n] *= alpha;
      sums[r] = dot4(s[r * VECS + n], k[n], sums[r]);
      sums[ROWS + r] = dot4(s[r * VECS + n], q[n], sums[ROWS + r]);
    }
  }
  const float sum = sum_of_each<LANES, 2 * ROWS>(sums, lane);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const uint row = row_at<LANES>(group + r * simdgroups, lane);
    const float delta = beta * (h.v[row] - from_neighbour<LANES>(sum, r, lane));
    const float read = from_neighbour<LANES>(sum, ROWS + r, lane);
    device float4* at = to + row * (KEY_DIM / 4) + lane % LANES;
#pragma unroll
    for (int n = 0; n < VECS; n++) at[n * LANES] = fma(k[n], float4(delta), s[r * VECS + n]);
    if (lane % LANES == 0) h.o[row] = fma(delta, kq, read);
  }
}

// Everything up to the gated norm. A simdgroup of index simd owns the row groups simd, simd+simdgroups, ...
template <int LANES, int VECS, int ROWS>
INLINE void delta_head(DeltaHead h, device const float* proj, device const float* taps, device const float* decay,
                       device const float* dt_bias, device const float* gain, device const bfloat* before, device bfloat* after,
                       device const float4* state_in, device float4* state_out, constant DeltaParams& p, uint head,
                       uint thread_id, uint simd, uint lane) {
  float4 s[ROWS * VECS];
  load_rows<LANES, VECS, ROWS>(s, state_in, simd, p.simdgroups, lane);

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
  // The last threads have the fewest channels.
  for (uint i = p.simdgroups * 32 - 1 - thread_id; i < VALUE_DIM; i += p.simdgroups * 32) {
    h.factor[i] = gain[i] * silu(proj[p.z + head * VALUE_DIM + i]);
  }
  if (simd + 1 == p.simdgroups) {
    const float alpha = exp(decay[head] * softplus(proj[p.a + head] + dt_bias[head]));
    const float beta = sigmoid(proj[p.b + head]);
    if (lane == 0) {
      h.gates[0] = alpha;
      h.gates[1] = beta;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float alpha = h.gates[0], beta = h.gates[1];

  float4 k[VECS], q[VECS];
  load_dims<LANES, VECS>(k, h.k, lane);
  load_dims<LANES, VECS>(q, h.q, lane);
  float products[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < VECS; n++) {
    products[0] = dot4(k[n], k[n], products[0]);
    products[1] = dot4(q[n], q[n], products[1]);
    products[2] = dot4(k[n], q[n], products[2]);
  }
  const float product = sum_of_each<LANES, 4>(products, lane);
  const float k_scale = rsqrt(from_neighbour<LANES>(product, 0, lane) + L2_EPS);
  const float q_scale = rsqrt(from_neighbour<LANES>(product, 1, lane) + L2_EPS) * rsqrt(float(KEY_DIM));
  const float kq = from_neighbour<LANES>(product, 2, lane) * k_scale * q_scale;
#pragma unroll
  for (int n = 0; n < VECS; n++) {
    k[n] *= k_scale;
    q[n] *= q_scale;
  }
  const uint groups = VALUE_DIM * LANES / 32;  // a multiple of simdgroups*ROWS
  for (uint g = simd; g < groups; g += p.simdgroups * ROWS) {
    if (g != simd) load_rows<LANES, VECS, ROWS>(s, state_in, g, p.simdgroups, lane);
    advance_rows<LANES, VECS, ROWS>(s, state_out, h, k, q, kq, alpha, beta, g, p.simdgroups, lane);
  }
}

kernel void delta(
    device const float* proj [[buffer(0)]],
    device const float* taps [[buffer(1)]],
    device const float* decay [[buffer(2)]],
    device const float* dt_bias [[buffer(3)]],
    device const float* gain [[buffer(4)]],
    device bfloat* conv [[buffer(5)]],
    device float* recurrent [[buffer(6)]],
    device const Step* step [[buffer(7)]],
    device float* out [[buffer(8)]],
    constant DeltaParams& p [[buffer(9)]],
    uint head [[threadgroup_position_in_grid]],
    uint thread_id [[thread_index_in_threadgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float q[MOST];
  threadgroup float k[MOST];
  threadgroup float v[MOST];
  threadgroup float o[MOST];
  threadgroup float factor[MOST];
  threadgroup float gates[2];
  DeltaHead h = {q, k, v, o, factor, gates};
  const ulong in = ulong(step->slot_in) * p.layers + p.layer, to = ulong(step->slot_out) * p.layers + p.layer;
  const ulong window = ulong(TAPS - 1) * (2 * p.key_heads * KEY_DIM + p.value_heads * VALUE_DIM);
  device const bfloat* before = conv + in * window;
  device bfloat* after = conv + to * window;
  device const float4* state_in = (device const float4*)(recurrent + (in * p.value_heads + head) * (VALUE_DIM * KEY_DIM));
  device float4* state_out = (device float4*)(recurrent + (to * p.value_heads + head) * (VALUE_DIM * KEY_DIM));

  if (KEY_DIM == 32) delta_head<8, 1, 4>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 64) delta_head<16, 1, 8>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 96) delta_head<8, 3, 4>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 128) delta_head<32, 1, 8>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else if (KEY_DIM == 192) delta_head<16, 3, 4>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  else delta_head<32, 2, 4>(h, proj, taps, decay, dt_bias, gain, before, after, state_in, state_out, p, head, thread_id, simd, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (simd * 32 < VALUE_DIM) {
    float sum = 0.0f;  // of o*o: each of these simdgroups adds up the whole head, in the same order
#pragma unroll
    for (uint i = 0; i < VALUE_DIM / 32; i++) sum = fma(o[i * 32 + lane], o[i * 32 + lane], sum);
    const float scale = rsqrt(simd_sum(sum) / float(VALUE_DIM) + p.eps);
    for (uint i = thread_id; i < VALUE_DIM; i += p.simdgroups * 32) out[lane_order(head * VALUE_DIM + i)] = o[i] * scale * factor[i];
  }
}
