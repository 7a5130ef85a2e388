// Gate and up projections of the chosen experts, with SwiGLU.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];

constant constexpr uint UP_GROUPS = 8; // simdgroups of a threadgroup
constant constexpr uint UP_PAIRS = 2;  // outputs of a simdgroup: each a row of the gate and one of up
constant constexpr uint UP_LANES = 16 / UP_PAIRS;  // that end with a row's product

struct UpShape {
  Placed place; // in an expert's record
  uint inner;   // outputs of an expert
  uint cols;    // inputs
  uint stride;  // from expert to expert, in 16 bytes
  uint parts;  // partial sums of squares
  float eps;
};

// experts_up computes out[slot][i] = silu(n * gate_i . x) * (n * up_i . x) for the expert of each slot (grid y), n being
// 1/rms of the vector whose gained form x is. Both rows of an output stay in one simdgroup, so that it has both products.
kernel void experts_up(device const uchar* experts [[buffer(0)]], device const uint* ids [[buffer(1)]],
                       device const float* x [[buffer(2)]], device const float* squares [[buffer(3)]],
                       device float* out [[buffer(4)]], constant UpShape& shape [[buffer(5)]],
                       uint3 at [[threadgroup_position_in_grid]],
                       uint group [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  const Coding coding = {BITS, GROUP, TYPE};
  const uint slot = at.y, first = (at.x * UP_GROUPS + group) * UP_PAIRS;
  const Weights weights = weights_at(experts + ulong(ids[slot]) * shape.stride * 16, shape.place);

  uint rows[2 * UP_PAIRS];
#pragma unroll
  for (uint i = 0; i < UP_PAIRS; i++) {
    rows[2 * i] = min(first + i, shape.inner - 1);
    rows[2 * i + 1] = rows[2 * i] + shape.inner;
  }
  float parts[8];
  load_squares(parts, squares, shape.parts, lane);
  float acc[2 * UP_PAIRS] = {};
  add_dots<2 * UP_PAIRS>(acc, weights, coding, rows, x, shape.cols, lane, 32);
  const float inverse = inverse_rms_of(parts, squares, shape.parts, shape.cols, shape.eps, lane);
  const float gate = inverse * sum_rows<2 * UP_PAIRS>(acc, lane);  // or up, in every second group of UP_LANES
  const float up = simd_shuffle_xor(gate, ushort(UP_LANES));
  const uint i = first + lane / (2 * UP_LANES);
  if (lane % (2 * UP_LANES) == 0 && i < shape.inner) {
    out[slot * lane_room(shape.inner) + lane_order(i)] = silu(gate) * up;
  }
}
