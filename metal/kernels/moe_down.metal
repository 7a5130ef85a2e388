// Down projections of the chosen experts and of the shared one, their weighted sum, and the residual.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];
constant uint SHARED_BITS [[function_constant(3)]];
constant uint SHARED_GROUP [[function_constant(4)]];
constant uint SHARED_TYPE [[function_constant(5)]];
constant bool ALIKE = BITS == SHARED_BITS && GROUP == SHARED_GROUP && TYPE == SHARED_TYPE; // one piece of code serves all

constant constexpr uint DOWN_ROWS = 8;        // of a threadgroup, which is one partial sum of squares
constant constexpr uint DOWN_HALF = 4;        // rows of half a simdgroup
constant constexpr uint DOWN_MOST_SLOTS = 17; // 16 experts and the shared one

struct DownShape {
  Placed place; // in an expert's record
  Placed shared_place;
  uint inner;   // inputs of an expert
  uint shared;  // inputs of the shared expert
  uint stride;  // from expert to expert, in 16 bytes
  uint slots;   // experts chosen
};

// experts_down adds sum over slots of weights[slot] * (down . x[slot]), then weights[slots] * (shared . shared_x), to the
// residual h, and writes its gained form and squares for the next norm. A row is short (512 inputs are 256 bytes of 4-bit
// codes), so what runs side by side is (row, slot): a simdgroup takes one slot, and where the pipeline allows too few of
// them every n-th one; half of it has four rows, which makes four 16-byte loads of weights in flight for a lane. The order
// of the sum does not depend on which simdgroup comes first.
[[max_total_threads_per_threadgroup(544)]] kernel void experts_down(device const uchar* experts [[buffer(0)]], device const uchar* shared_expert [[buffer(1)]],
                         device const uint* ids [[buffer(2)]], device const float* weights [[buffer(3)]],
                         device const float* x [[buffer(4)]], device const float* shared_x [[buffer(5)]],
                         device float* h [[buffer(6)]], device const float* gain [[buffer(7)]],
                         device float* gained [[buffer(8)]], device float* squares [[buffer(9)]],
                         constant DownShape& shape [[buffer(10)]], uint3 at [[threadgroup_position_in_grid]],
                         uint group [[simdgroup_index_in_threadgroup]], uint groups [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float parts[DOWN_MOST_SLOTS * DOWN_ROWS];

  const uint half_lane = lane % 16, half_row = lane / 16 * DOWN_HALF;
  const bool owner = group == 0 && lane < DOWN_ROWS; // of row `lane`, from the residual to the end
  const uint own = at.x * DOWN_ROWS + lane % DOWN_ROWS;
  const float before = owner ? h[own] : 0.0f, own_gain = owner ? gain[own] : 0.0f;

  uint rows[DOWN_HALF];
#pragma unroll
  for (uint i = 0; i < DOWN_HALF; i++) {
    rows[i] = at.x * DOWN_ROWS + half_row + i;
  }
  for (uint slot = group; slot <= shape.slots; slot += groups) {
    const float weight = weights[slot];
    float acc[DOWN_HALF] = {0.0f, 0.0f, 0.0f, 0.0f};
    const bool chosen = slot < shape.slots;
    Weights m = weights_at(shared_expert, shape.shared_place);
    if (chosen) m = weights_at(experts + ulong(ids[slot]) * shape.stride * 16, shape.place);
    device const float* from = chosen ? x + slot * lane_room(shape.inner) : shared_x;
    const uint cols = chosen ? shape.inner : shape.shared;
    const Coding coding = {BITS, GROUP, TYPE}, shared_coding = {SHARED_BITS, SHARED_GROUP, SHARED_TYPE};
    if (ALIKE || chosen) add_dots<DOWN_HALF>(acc, m, coding, rows, from, cols, half_lane, 16);
    else add_dots<DOWN_HALF>(acc, m, shared_coding, rows, from, cols, half_lane, 16);
    exchange<2>(acc, lane, 8); // of the half's 16 lanes, each 4 end with one row
    exchange<1>(acc, lane, 4);
    float product = acc[0] + simd_shuffle_xor(acc[0], 2);
    product += simd_shuffle_xor(product, 1);
    if (lane % 4 == 0) {
      parts[slot * DOWN_ROWS + lane / 4] = weight * product;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (group == 0) {
    float sum = 0.0f;
    for (uint i = 0; i <= shape.slots; i++) {
      sum += parts[i * DOWN_ROWS + lane % DOWN_ROWS];
    }
    const float after = owner ? before + sum : 0.0f;
    const float square = simd_sum(after * after);
    if (owner) {
      h[own] = after;
      gained[lane_order(own)] = after * own_gain;
    }
    if (lane == 0) {
      squares[at.x] = square;
    }
  }
}
