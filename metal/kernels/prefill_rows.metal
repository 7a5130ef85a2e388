// What prefill does to rows of the residual: norms, and the sum of what the experts found. A threadgroup has
// a row, a thread of it every ROW_THREADS-th four columns.

constant uint EXPERT_TYPE [[function_constant(0)]];  // of the experts' outputs, for combine_rows
constant uint TOP_K [[function_constant(1)]];

constant constexpr uint ROW_THREADS = 256;
constant constexpr uint ROW_SIMDGROUPS = ROW_THREADS / 32;

struct RowShape {
  uint cols;  // a multiple of 4
  float eps;
};

// 1/rms of a row from its threads' sums of squares.
INLINE float row_scale(float squares, threadgroup float* sums, constant RowShape& shape, uint simd, uint lane) {
  const float part = simd_sum(squares);
  if (lane == 0) sums[simd] = part;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
#pragma unroll
  for (uint i = 0; i < ROW_SIMDGROUPS; i++) sum += sums[i];
  return rsqrt(sum / float(shape.cols) + shape.eps);
}

// Sum of squares of a thread's share of a row.
INLINE float row_squares(device const float4* h, uint cols, uint self) {
  float sum = 0.0f;
  for (uint i = self; i < cols / 4; i += ROW_THREADS) sum += dot(h[i], h[i]);
  return sum;
}

// A thread's share of x = h*scale*gain as f16.
INLINE void store_normed(device const float4* h, device const float4* gain, device uint2* x, float scale, uint cols, uint self) {
  for (uint i = self; i < cols / 4; i += ROW_THREADS) {
    const float4 v = h[i] * scale * gain[i];
    x[i] = uint2(packed_half(v.x, v.y), packed_half(v.z, v.w));
  }
}

// norm_rows writes x = h/rms(h)*gain as f16.
kernel void norm_rows(device const float4* h [[buffer(0)]], device const float4* gain [[buffer(1)]],
                      device uint2* x [[buffer(2)]], constant RowShape& shape [[buffer(3)]],
                      uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float sums[ROW_SIMDGROUPS];
  const ulong row = ulong(at.x) * (shape.cols / 4);
  const float scale = row_scale(row_squares(h + row, shape.cols, self), sums, shape, simd, lane);
  store_normed(h + row, gain, x + row, scale, shape.cols, self);
}

// norm_rows_exact writes the same, and in exact the numbers before they are rounded.
kernel void norm_rows_exact(device const float4* h [[buffer(0)]], device const float4* gain [[buffer(1)]],
                            device uint2* x [[buffer(2)]], device float4* exact [[buffer(3)]],
                            constant RowShape& shape [[buffer(4)]], uint3 at [[threadgroup_position_in_grid]],
                            uint self [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float sums[ROW_SIMDGROUPS];
  const ulong row = ulong(at.x) * (shape.cols / 4);
  const float scale = row_scale(row_squares(h + row, shape.cols, self), sums, shape, simd, lane);
  store_normed(h + row, gain, x + row, scale, shape.cols, self);
  for (uint i = self; i < shape.cols / 4; i += ROW_THREADS) exact[row + i] = h[row + i] * scale * gain[i];
}

INLINE float4 load_four(device const uchar* y, ulong quad) {
  if (EXPERT_TYPE == F32) return ((device const float4*)y)[quad];
  const uint2 v = ((device const uint2*)y)[quad];
  return float4(float2(as_type<half2>(v.x)), float2(as_type<half2>(v.y)));
}

// combine_rows adds to h the sum over slots, ascending, of weight times the row of experts' outputs that places names, then
// the last weight times the shared expert's output; and writes the next norm of h as norm_rows does.
kernel void combine_rows(device float4* h [[buffer(0)]], device const uchar* experts [[buffer(1)]],
                         device const uint* places [[buffer(2)]], device const float* weights [[buffer(3)]],
                         device const uchar* shared [[buffer(4)]], device const float4* gain [[buffer(5)]],
                         device uint2* x [[buffer(6)]], constant RowShape& shape [[buffer(7)]],
                         uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float sums[ROW_SIMDGROUPS];
  const ulong quads = shape.cols / 4, row = at.x * quads;
  device const uint* place = places + at.x * TOP_K;
  device const float* weight = weights + at.x * (TOP_K + 1);
  float squares = 0.0f;
  for (uint i = self; i < quads; i += ROW_THREADS) {
    float4 sum = float4(0.0f);
#pragma unroll
    for (uint slot = 0; slot < TOP_K; slot++) sum += weight[slot] * load_four(experts, place[slot] * quads + i);
    sum += weight[TOP_K] * load_four(shared, row + i);
    const float4 after = h[row + i] + sum;
    h[row + i] = after;
    squares += dot(after, after);
  }
  const float scale = row_scale(squares, sums, shape, simd, lane);
  store_normed(h + row, gain, x + row, scale, shape.cols, self);
}
