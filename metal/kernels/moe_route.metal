// The router: which experts a token takes, and with what weights.

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

constant uint EXPERTS [[function_constant(0)]];
constant uint TOP_K [[function_constant(1)]];
constant bool NORMALISE [[function_constant(2)]];

constant constexpr uint ROUTE_THREADS = 256;
constant constexpr uint ROUTE_GROUPS = ROUTE_THREADS / 32;
constant constexpr uint ROUTE_ITEMS = 2; // logits of a thread, at most: 512 experts
constant constexpr uint ROUTE_TOP = 16;  // the largest TOP_K
constant constexpr uint ROUTE_LIST = ROUTE_GROUPS * ROUTE_TOP;

// rank maps scores to integers in the same order; NaN, which compares with nothing, comes last.
inline uint rank(float l) {
  uint b = l == 0.0f ? 0u : as_type<uint>(l);
  if ((b & 0x7fffffffu) > 0x7f800000u) {
    return 0;
  }
  return (b >> 31) != 0 ? ~b : b | 0x80000000u;
}

// before says that expert a comes before expert b: the higher score, of equal ones the lower id.
inline bool before(uint2 a, uint2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

// moe_route writes the TOP_K experts of the largest logits in ascending order of their ids, their share of the softmax
// over all experts, or of that over the chosen ones, and last the sigmoid of the shared expert's logit. A logit that is no
// number makes every share one, as in any softmax; the ids are valid and distinct whatever the logits are.
//
// Each simdgroup ranks its own experts and hands its first TOP_K on; those are ranked again. One threadgroup works.
kernel void moe_route(device const float* logits [[buffer(0)]], device const float* shared_logit [[buffer(1)]],
                      device uint* ids [[buffer(2)]], device float* weights [[buffer(3)]],
                      uint self [[thread_index_in_threadgroup]], uint group [[simdgroup_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint2 list[ROUTE_LIST]; // {rank, id}
  threadgroup float highest[ROUTE_GROUPS], sums[ROUTE_GROUPS], scores[ROUTE_TOP];
  threadgroup uint chosen[ROUTE_TOP];

  const uint items = (EXPERTS + ROUTE_THREADS - 1) / ROUTE_THREADS;
  float l[ROUTE_ITEMS];
  uint2 key[ROUTE_ITEMS];
  float high = -INFINITY;
#pragma unroll
  for (uint j = 0; j < items; j++) {
    uint id = j * ROUTE_THREADS + self;
    l[j] = id < EXPERTS ? logits[id] : -INFINITY;
    key[j] = uint2(id < EXPERTS ? rank(l[j]) : 0u, id); // those that don't exist come last of all
    high = max(high, l[j]);
  }
  high = simd_max(high);
  uint place[ROUTE_ITEMS] = {0, 0};
  for (ushort other = 0; other < 32; other++) {
#pragma unroll
    for (uint j = 0; j < items; j++) {
      uint2 o = uint2(simd_shuffle(key[j].x, other), simd_shuffle(key[j].y, other));
#pragma unroll
      for (uint i = 0; i < items; i++) {
        place[i] += before(o, key[i]) ? 1u : 0u;
      }
    }
  }
#pragma unroll
  for (uint j = 0; j < items; j++) {
    if (place[j] < TOP_K) {
      list[group * TOP_K + place[j]] = key[j];
    }
  }
  if (lane == 0) {
    highest[group] = high;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  high = simd_max(highest[lane % ROUTE_GROUPS]);
  float sum = 0.0f;
#pragma unroll
  for (uint j = 0; j < items; j++) {
    sum += j * ROUTE_THREADS + self < EXPERTS ? exp(l[j] - high) : 0.0f;
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    sums[group] = sum;
  }
  uint count = ROUTE_GROUPS * TOP_K;
  if (self < count) {
    uint2 own = list[self];
    uint at = 0;
    for (uint i = 0; i < count; i++) {
      at += before(list[i], own) ? 1u : 0u;
    }
    if (at < TOP_K) {
      chosen[at] = own.y;
      scores[at] = exp(logits[own.y] - high);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (group == 0) {
    float all = 0.0f;
    for (uint i = 0; i < ROUTE_GROUPS; i++) {
      all += sums[i];
    }
    float weight = lane < TOP_K ? scores[lane] / all : 0.0f;
    float total = simd_sum(weight);
    if (lane < TOP_K) {
      uint id = chosen[lane], slot = 0;
      for (uint i = 0; i < TOP_K; i++) {
        slot += chosen[i] < id ? 1u : 0u;
      }
      ids[slot] = id;
      weights[slot] = NORMALISE ? weight / total : weight;
    }
    if (lane == TOP_K) {
      weights[TOP_K] = 1.0f / (1.0f + exp(-shared_logit[0]));
    }
  }
}
