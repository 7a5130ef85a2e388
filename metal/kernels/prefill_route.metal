// The router of many tokens: which experts each takes, then every expert's tokens.

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

constant uint EXPERTS [[function_constant(0)]];
constant uint TOP_K [[function_constant(1)]];
constant bool NORMALISE [[function_constant(2)]];

constant constexpr uint CHOOSE_SIMDGROUPS = 4;  // tokens of a threadgroup
constant constexpr uint CHOOSE_ITEMS = 16;      // logits of a lane: 512 experts at most

// rank maps scores to integers in the same order; NaN, which compares with nothing, comes last.
inline uint rank(float l) {
  const uint b = l == 0.0f ? 0u : as_type<uint>(l);
  if ((b & 0x7fffffffu) > 0x7f800000u) return 0;
  return (b >> 31) != 0 ? ~b : b | 0x80000000u;
}

// choose_experts writes for each token the TOP_K experts of the largest logits (ties to the lowest id) in ascending order
// of their ids, their share of the softmax over all experts or over the chosen ones, and last the sigmoid of the shared
// expert's logit: logits are rows of EXPERTS numbers and that one. A logit that is no number makes every share one; the ids
// are valid and distinct whatever the logits are. A simdgroup has a token.
kernel void choose_experts(device const float* logits [[buffer(0)]], device uint* ids [[buffer(1)]],
                           device float* weights [[buffer(2)]], constant uint& count [[buffer(3)]],
                           uint3 at [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const uint token = at.x * CHOOSE_SIMDGROUPS + simd;
  if (token >= count) return;  // the whole simdgroup
  device const float* row = logits + ulong(token) * (EXPERTS + 1);

  uint key[CHOOSE_ITEMS];
  float high = -INFINITY;
#pragma unroll
  for (uint j = 0; j < CHOOSE_ITEMS; j++) {
    const uint id = j * 32 + lane;
    const float l = id < EXPERTS ? row[id] : -INFINITY;
    key[j] = id < EXPERTS ? rank(l) : 0u;
    high = max(high, l);
  }
  high = simd_max(high);
  float all = 0.0f;
#pragma unroll
  for (uint j = 0; j < CHOOSE_ITEMS; j++) {
    const uint id = j * 32 + lane;
    all += id < EXPERTS ? exp(row[id] - high) : 0.0f;
  }
  all = simd_sum(all);

  uint left = 0, chosen = EXPERTS;  // bits of items not taken before; lane i < TOP_K: the i-th best
#pragma unroll
  for (uint j = 0; j < CHOOSE_ITEMS; j++) left |= j * 32 + lane < EXPERTS ? 1u << j : 0u;
  for (uint i = 0; i < TOP_K; i++) {
    uint best = 0, item = CHOOSE_ITEMS;
#pragma unroll
    for (uint j = 0; j < CHOOSE_ITEMS; j++) {
      const bool better = (left >> j & 1u) != 0 && (item == CHOOSE_ITEMS || key[j] > best);
      best = better ? key[j] : best;
      item = better ? j : item;
    }
    const uint most = simd_max(item < CHOOSE_ITEMS ? best : 0u);
    const uint own = item < CHOOSE_ITEMS && best == most ? item * 32 + lane : 0xffffffffu;
    const uint id = simd_min(own);
    if (id == own) left &= ~(1u << item);
    if (lane == i) chosen = id;
  }
  const float score = lane < TOP_K ? exp(row[chosen] - high) / all : 0.0f;
  const float total = simd_sum(score);
  uint slot = 0;
  for (uint i = 0; i < TOP_K; i++) slot += simd_shuffle(chosen, ushort(i)) < chosen ? 1u : 0u;
  if (lane < TOP_K) {
    ids[token * TOP_K + slot] = chosen;
    weights[token * (TOP_K + 1) + slot] = NORMALISE ? score / total : score;
  }
  if (lane == TOP_K) weights[token * (TOP_K + 1) + TOP_K] = 1.0f / (1.0f + exp(-row[EXPERTS]));
}

constant constexpr uint GATHER_THREADS = 512;
constant constexpr uint GATHER_SIMDGROUPS = GATHER_THREADS / 32;

struct GatherShape {
  uint pairs;   // tokens * TOP_K
  uint height;  // rows of a tile
  uint tiles;   // entries of the map
};

// The sum of x over the threads before this one, and over all of them.
INLINE uint2 sum_before(uint x, threadgroup uint* sums, uint simd, uint lane) {
  const uint before = simd_prefix_exclusive_sum(x);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // sums may still be read
  if (lane == 31) sums[simd] = before + x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint other = lane < GATHER_SIMDGROUPS ? sums[lane] : 0u;
  return uint2(before + simd_sum(lane < simd ? other : 0u), simd_sum(other));
}

// group_rows orders (token, slot) pairs by expert, of one expert by token. Threadgroup e serves expert e: it counts what all
// experts get, so it knows where its rows begin, lists their tokens, tells every pair its row, adds tiles to the map, and
// adds its count to loads. No threadgroup waits for another, and nothing depends on the order in which they run. The last
// one ends the map. Each simdgroup reads one stretch of the pairs.
kernel void group_rows(device const uint* ids [[buffer(0)]], device uint* tokens [[buffer(1)]],
                       device uint* places [[buffer(2)]], device uint4* tiles [[buffer(3)]],
                       device uint* loads [[buffer(4)]], constant GatherShape& shape [[buffer(5)]],
                       uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup atomic_uint counts[GATHER_THREADS];
  threadgroup uint sums[GATHER_SIMDGROUPS];
  threadgroup uint starts[3];  // of this expert: first row, rows, first tile

  const uint expert = at.x;
  const uint stretch = (shape.pairs + GATHER_THREADS - 1) / GATHER_THREADS * 32;
  const uint from = simd * stretch, to = min(from + stretch, shape.pairs);
  atomic_store_explicit(&counts[self], 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint found = 0;
  for (uint i = from + lane; i < to; i += 32) {
    const uint id = ids[i];
    atomic_fetch_add_explicit(&counts[id], 1u, memory_order_relaxed);
    found += id == expert ? 1u : 0u;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint count = atomic_load_explicit(&counts[self], memory_order_relaxed);
  const uint row = sum_before(count, sums, simd, lane).x;
  const uint2 tile = sum_before((count + shape.height - 1) / shape.height, sums, simd, lane);
  const uint earlier = simd_broadcast_first(sum_before(found, sums, simd, lane).x);  // of this expert, before the stretch
  if (self == expert) {
    starts[0] = row;
    starts[1] = count;
    starts[2] = tile.x;
    loads[expert] += count;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint first = starts[0], own = starts[1];
  for (uint i = self; i * shape.height < own; i += GATHER_THREADS) {
    tiles[starts[2] + i] = uint4(expert, first + i * shape.height, min(own - i * shape.height, shape.height), 0u);
  }
  if (expert == EXPERTS - 1) {
    for (uint i = tile.y + self; i < shape.tiles; i += GATHER_THREADS) tiles[i] = uint4(0u);
  }

  uint next = first + earlier;
  for (uint start = from; start < to; start += 32) {
    const uint i = start + lane;
    const bool mine = i < to && ids[min(i, to - 1)] == expert;
    const uint all = uint(ulong(simd_ballot(mine)));
    if (mine) {
      const uint place = next + popcount(all & ((1u << lane) - 1u));
      tokens[place] = i / TOP_K;
      places[i] = place;
    }
    next += popcount(all);
  }
}
