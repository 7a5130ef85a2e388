// From logits to the next token. One threadgroup does it all: it starts from the argmax partials of the head, each of
// which stands for a tile of 32 ids, and opens only the tiles that can hold a candidate.

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

constant constexpr uint SAMPLE_THREADS = 1024;
constant constexpr uint SAMPLE_GROUPS = SAMPLE_THREADS / 32;
constant constexpr uint CANDIDATES = 2048; // more than these are the host's to sort
constant constexpr uint HEAP_LIMIT = 256;  // the largest top-k that is selected before sorting
constant constexpr float NEGLIGIBLE = -17.0f; // exponent of weights that change no sum

constant constexpr uint NOTHING = 0xffffffffu;
constant constexpr uint LOWEST = 0x007fffffu; // order(-INFINITY)

constant constexpr uint RESULTS = 64; // of the ring
constant constexpr uint FLAG_NAN = 1, FLAG_NONE = 2, FLAG_HOST = 4;

constant constexpr uint TILE = 32; // ids of a partial: a word of the mask

struct SampleShape {
  uint vocab;
  uint parts; // of TILE ids each
};

struct SampleParams {
  float temperature;
  uint top_k;
  float top_p;
  float min_p;
  uint seed_low;
  uint seed_high;
  uint choice;
  uint unused;
};

inline bool not_a_number(float l) { return (as_type<uint>(l) & 0x7fffffffu) > 0x7f800000u; }

// order maps logits to integers in the same order; both zeros are one.
inline uint order(float l) {
  uint b = l == 0.0f ? 0u : as_type<uint>(l);
  return (b >> 31) != 0 ? ~b : b | 0x80000000u;
}

inline float logit_of(uint o) { return as_type<float>((o >> 31) != 0 ? o & 0x7fffffffu : ~o); }

// exponent is (l - top) / temperature; 0 for the largest logit even when that is infinite.
inline float exponent(float l, float top, float temperature) { return l == top ? 0.0f : (l - top) / temperature; }

// weigh is e^x for x at most 0, bit for bit that of worker/sample: every operation rounded, none a library's.
inline float weigh(float x) {
  if (!(x >= -87.0f)) {
    return 0.0f;
  }
  int n = int(x * 1.44269504f - 0.5f);
  float r = x - float(n) * 0.693359375f;
  r = r - float(n) * -2.12194440e-4f;
  float q = 1.0f / 5040.0f;
  q = q * r + 1.0f / 720.0f;
  q = q * r + 1.0f / 120.0f;
  q = q * r + 1.0f / 24.0f;
  q = q * r + 1.0f / 6.0f;
  q = q * r + 0.5f;
  q = (r * r) * q + r;
  return (1.0f + q) * as_type<float>(uint(n + 127) << 23);
}

// uniform_number is Philox4x32-10 of counter (position, 0, choice, 0) and key seed: a number in [0, 1).
inline float uniform_number(uint position, uint choice, uint key0, uint key1) {
  uint4 c = uint4(position, 0u, choice, 0u);
  for (uint round = 0; round < 10; round++) {
    uint hi0 = mulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
    uint hi1 = mulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
    c = uint4(hi1 ^ c.y ^ key0, lo1, hi0 ^ c.w ^ key1, lo0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return float(c.x >> 8) * (1.0f / 16777216.0f);
}

// sort_keys sorts keys[0, n) in ascending order, n being a power of two: a bitonic network, one pair a thread. It starts
// and ends with a barrier.
inline void sort_keys(threadgroup ulong* keys, uint n, uint self) {
  for (uint size = 2; size <= n; size *= 2) {
    for (uint gap = size / 2; gap > 0; gap /= 2) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (self < n / 2) {
        uint a = 2 * self - (self & (gap - 1)), b = a + gap;
        ulong x = keys[a], y = keys[b];
        if ((x > y) == ((a & size) == 0)) {
          keys[a] = y;
          keys[b] = x;
        }
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// advance_step makes token the current one.
inline void advance_step(device Step* step, uint token) {
  const uint slot = step->slot_in;
  step->token = token;
  step->position = step->position + 1;
  step->slot_in = step->slot_out;
  step->slot_out = slot;
}

// Best is the largest allowed logit as order says, the lowest id that has it, and whether any is not a number.
struct Best {
  uint order;
  uint id;
  uint bad;
};

inline Best best_of_simdgroup(Best mine) {
  Best b;
  b.order = simd_max(mine.order);
  b.id = simd_min(mine.order == b.order ? mine.id : NOTHING);
  b.bad = simd_max(mine.bad);
  return b;
}

inline Best best_of_thread(device const uint2* partials, uint parts, uint self) {
  Best b = {LOWEST, NOTHING, 0};
  for (uint i = self; i < parts; i += SAMPLE_THREADS) {
    const uint2 part = partials[i];
    const float l = as_type<float>(part.x);
    const uint o = order(l);
    if (not_a_number(l)) {
      b.bad = 1;
    } else if (o > b.order || (o == b.order && part.y < b.id)) {
      b.order = o;
      b.id = part.y;
    }
  }
  return b;
}

// The logits that can be sampled: at least `least`, and with a weight that is not negligible.
struct Filter {
  uint least;
  float top;
  float temperature;
};

inline bool passes(Filter f, uint o) { return o >= f.least && exponent(logit_of(o), f.top, f.temperature) >= NEGLIGIBLE; }

// least_of_top bounds the top_k-th largest logit from below: by the top_k-th of the maxima of disjoint sets of ids. Four
// times as many sets, where there are as many parts, make it a close bound, and fewer are faster to sort. `mine` is the
// largest of a thread's ids. It ends with a barrier.
inline uint least_of_top(threadgroup ulong* keys, uint top_k, uint mine, uint parts, uint self) {
  uint used = min(parts, SAMPLE_THREADS), sets = SAMPLE_THREADS, width = 1; // width: threads of a set
  for (; width < 32 && used >= 8 * top_k; width *= 2) {
    mine = max(mine, simd_shuffle_xor(mine, ushort(width)));
    used /= 2;
    sets /= 2;
  }
  if (self % width == 0) {
    keys[self / width] = ulong(~mine) << 32;
  }
  sort_keys(keys, sets, self);
  const uint least = ~uint(keys[top_k - 1] >> 32);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return least;
}

// add_up turns the bits of count weights, a multiple of 8, into those of their sums from the first on. One thread calls it:
// the order of the additions is part of the result.
inline void add_up(threadgroup uint* weights, uint count) {
  float sum = 0.0f;
  for (uint i = 0; i < count; i += 8) {
    float w[8];
#pragma unroll
    for (uint j = 0; j < 8; j++) {
      w[j] = as_type<float>(weights[i + j]);
    }
#pragma unroll
    for (uint j = 0; j < 8; j++) {
      sum += w[j];
      weights[i + j] = as_type<uint>(sum);
    }
  }
}

// pick returns the index of the sampled one of n candidates, whose keys are in keys. It writes over sums.
inline uint pick(threadgroup const ulong* keys, threadgroup uint* sums, threadgroup atomic_uint* kept,
                 threadgroup atomic_uint* picked, threadgroup float* drawn, Filter f, uint n, uint size,
                 device const SampleParams* params, uint position, uint self) {
  const float min_p = params->min_p, top_p = params->top_p;
  for (uint i = self; i < size; i += SAMPLE_THREADS) {
    const float w = i < n ? weigh(exponent(logit_of(~uint(keys[i] >> 32)), f.top, f.temperature)) : 0.0f;
    sums[i] = as_type<uint>(w);
    if (i > 0 && w < min_p) {
      atomic_fetch_min_explicit(kept, i, memory_order_relaxed);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (self == 0) {
    add_up(sums, size);
  }
  if (self == 32) { // meanwhile
    *drawn = uniform_number(position, params->choice, params->seed_low, params->seed_high);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (top_p > 0.0f && top_p < 1.0f) {
    const float limit = top_p * as_type<float>(sums[n - 1]);
    for (uint i = self + 1; i < n; i += SAMPLE_THREADS) {
      if (as_type<float>(sums[i - 1]) >= limit) {
        atomic_fetch_min_explicit(kept, i, memory_order_relaxed);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  n = min(n, atomic_load_explicit(kept, memory_order_relaxed));
  const float limit = *drawn * as_type<float>(sums[n - 1]);
  for (uint i = self; i < n; i += SAMPLE_THREADS) {
    if (as_type<float>(sums[i]) > limit) {
      atomic_fetch_min_explicit(picked, i, memory_order_relaxed);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return min(n - 1, atomic_load_explicit(picked, memory_order_relaxed));
}

// sample_token chooses an id as worker/sample does, notes {id, flags} in the ring of results and advances the step.
//
// Keys of candidates ascend in order of preference: the inverted order of the logit above, the id below.
[[max_total_threads_per_threadgroup(1024)]]
kernel void sample_token(
    device const float* logits [[buffer(0)]],
    device const uint* allowed [[buffer(1)]],
    device const uint2* partials [[buffer(2)]],
    device const SampleParams* params [[buffer(3)]],
    device Step* step [[buffer(4)]],
    device uint2* results [[buffer(5)]],
    constant SampleShape& shape [[buffer(6)]],
    uint self [[thread_index_in_threadgroup]],
    uint group [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup ulong keys[CANDIDATES];
  threadgroup uint slots[CANDIDATES];  // the tiles to open, then the bits of sums of weights
  threadgroup uint orders[SAMPLE_GROUPS], ids[SAMPLE_GROUPS], bads[SAMPLE_GROUPS];
  threadgroup atomic_uint opened, found, kept, picked;
  threadgroup float drawn;

  const Best mine = best_of_thread(partials, shape.parts, self);
  const Best simd_best = best_of_simdgroup(mine);
  if (lane == 0) {
    orders[group] = simd_best.order;
    ids[group] = simd_best.id;
    bads[group] = simd_best.bad;
  }
  if (self == 0) {
    atomic_store_explicit(&opened, 0u, memory_order_relaxed);
    atomic_store_explicit(&found, 0u, memory_order_relaxed);
    atomic_store_explicit(&kept, CANDIDATES, memory_order_relaxed);
    atomic_store_explicit(&picked, CANDIDATES, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const Best best = best_of_simdgroup({orders[lane], ids[lane], bads[lane]});

  uint id = best.id, flags = best.bad != 0 ? FLAG_NAN : best.order == LOWEST ? FLAG_NONE : 0u;
  const uint top_k = params->top_k;
  Filter filter = {0, logit_of(best.order), params->temperature};
  if (flags == 0 && filter.temperature > 0.0f && top_k != 1) {  // the same for all threads
    if (top_k > 0 && top_k <= HEAP_LIMIT) {
      filter.least = least_of_top(keys, top_k, mine.order, shape.parts, self);
    }
    if (passes(filter, mine.order)) {
      for (uint i = self; i < shape.parts; i += SAMPLE_THREADS) {
        if (passes(filter, order(as_type<float>(partials[i].x)))) {
          const uint at = atomic_fetch_add_explicit(&opened, 1u, memory_order_relaxed);
          if (at < CANDIDATES) {
            slots[at] = i;
          }
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint tiles = atomic_load_explicit(&opened, memory_order_relaxed);
    for (uint i = group; i < min(tiles, CANDIDATES); i += SAMPLE_GROUPS) {
      const uint row = slots[i] * TILE + lane;
      if (row < shape.vocab && ((allowed[row / TILE] >> lane) & 1u) != 0u) {
        const uint o = order(logits[row]);
        if (passes(filter, o)) {
          const uint at = atomic_fetch_add_explicit(&found, 1u, memory_order_relaxed);
          if (at < CANDIDATES) {
            keys[at] = (ulong(~o) << 32) | ulong(row);
          }
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint n = atomic_load_explicit(&found, memory_order_relaxed);  // every tile opened has one
    if (n == 0 || n > CANDIDATES || tiles > CANDIDATES) {
      flags = FLAG_HOST;
    } else {
      uint size = 8;  // sums are made by eights
      while (size < n) {
        size *= 2;
      }
      for (uint i = n + self; i < size; i += SAMPLE_THREADS) {
        keys[i] = ~ulong(0);
      }
      sort_keys(keys, size, self);
      const uint count = top_k > 0 ? min(n, top_k) : n;
      id = uint(keys[pick(keys, slots, &kept, &picked, &drawn, filter, count, size, params, step->position + 1, self)]);
    }
  }

  if (self == 0) {
    if (id >= shape.vocab) {  // nothing is allowed: stay inside the tables
      id = 0;
    }
    const uint produced = step->produced;
    results[produced % RESULTS] = uint2(id, flags);
    step->produced = produced + 1;
    advance_step(step, id);
  }
}
