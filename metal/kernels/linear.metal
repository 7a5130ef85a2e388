// Matrix times vector. A set of SPLIT simdgroups computes ROWS rows, each simdgroup taking every SPLIT-th block of 32
// units; SETS sets make a threadgroup, which so owns a tile of SETS*ROWS rows. Its first simdgroup adds the shares in
// ascending order and finishes the tile, a row for each lane.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];
constant uint ROWS [[function_constant(3)]];   // 1, 2, 4 or 8
constant uint SPLIT [[function_constant(4)]];  // 1, 2, 4 or 8
constant uint SETS [[function_constant(5)]];   // SETS*ROWS <= 32
constant bool SWIGLU [[function_constant(6)]]; // rows are gates, then ups: a set's are halved likewise
constant uint TILES [[function_constant(7)]];  // linear_best: tiles of a threadgroup, one after the other

constant constexpr uint SHARES = 256;  // at most 32 rows by 8 simdgroups

struct LinearParams {
  Placed w;
  uint rows;
  uint cols;
  uint parts;  // of the sums of squares
  float eps;
};

// The matrix row of row r of a set. Rows beyond the matrix stand for the last one, and are not stored.
INLINE uint row_of(uint group, uint set, uint r, uint rows) {
  if (SWIGLU) {
    const uint pair = (group * SETS + set) * (ROWS / 2) + r % (ROWS / 2);
    return min(pair, rows / 2 - 1) + (r < ROWS / 2 ? 0 : rows / 2);
  }
  return min((group * SETS + set) * ROWS + r, rows - 1);
}

template <int R>
INLINE void share_rows(threadgroup float* shares, device const uchar* w, device const float* x, constant LinearParams& p,
                       uint group, uint simd, uint lane) {
  const uint set = simd / SPLIT, piece = simd % SPLIT;
  Coding c = {BITS, GROUP, TYPE};
  uint rows[R];
  float acc[R];
#pragma unroll
  for (int r = 0; r < R; r++) {
    rows[r] = row_of(group, set, r, p.rows);
    acc[r] = 0.0f;
  }
  add_dots<R>(acc, weights_at(w, p.w), c, rows, x, p.cols, piece * 32 + lane, SPLIT * 32);
  const float sum = sum_rows<R>(acc, lane);
  if (lane % (32 / R) == 0) shares[(set * R + lane / (32 / R)) * SPLIT + piece] = sum;
}

// The simdgroup leaves its shares of tile number tile.
INLINE void share_tile(threadgroup float* shares, device const uchar* w, device const float* x, constant LinearParams& p,
                       uint tile, uint simd, uint lane) {
  if (ROWS == 1) share_rows<1>(shares, w, x, p, tile, simd, lane);
  else if (ROWS == 2) share_rows<2>(shares, w, x, p, tile, simd, lane);
  else if (ROWS == 4) share_rows<4>(shares, w, x, p, tile, simd, lane);
  else share_rows<8>(shares, w, x, p, tile, simd, lane);
}

// After it, total() of any lane below SETS*ROWS is a row's dot product.
INLINE void share(threadgroup float* shares, device const uchar* w, device const float* x, constant LinearParams& p,
                  uint group, uint simd, uint lane) {
  share_tile(shares, w, x, p, group, simd, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

INLINE float total(threadgroup const float* shares, uint row) {
  float sum = shares[row * SPLIT];
  for (uint i = 1; i < SPLIT; i++) sum += shares[row * SPLIT + i];
  return sum;
}

INLINE void store(threadgroup const float* shares, float scale, device float* out, uint rows, uint group, uint lane) {
  if (SWIGLU) {
    const uint half_rows = ROWS / 2, i = group * SETS * half_rows + lane;
    if (lane < SETS * half_rows && i < rows / 2) {
      const uint gate = lane / half_rows * ROWS + lane % half_rows;
      out[lane_order(i)] = silu(total(shares, gate) * scale) * (total(shares, gate + half_rows) * scale);
    }
    return;
  }
  const uint i = group * SETS * ROWS + lane;
  if (lane < SETS * ROWS && i < rows) out[i] = total(shares, lane) * scale;
}

kernel void linear(
    device const uchar* w [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device float* out [[buffer(2)]],
    constant LinearParams& p [[buffer(3)]],
    uint group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float shares[SHARES];
  share(shares, w, x, p, group, simd, lane);
  if (simd == 0) store(shares, 1.0f, out, p.rows, group, lane);
}

// The vector is h*gain; the missing factor of its norm, 1/rms(h), multiplies the outputs.
kernel void linear_normed(
    device const uchar* w [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device const float* squares [[buffer(2)]],
    device float* out [[buffer(3)]],
    constant LinearParams& p [[buffer(4)]],
    uint group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float shares[SHARES];
  float parts[8];
  if (simd == 0) load_squares(parts, squares, p.parts, lane);
  share(shares, w, x, p, group, simd, lane);
  if (simd == 0) {
    const float scale = inverse_rms_of(parts, squares, p.parts, p.cols, p.eps, lane);
    store(shares, scale, out, p.rows, group, lane);
  }
}

// h += W x, and what the next norm needs of it: h*gain, in lane order, and the sums of squares of 8 rows each.
kernel void linear_residual(
    device const uchar* w [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device float* h [[buffer(2)]],
    device const float* gain [[buffer(3)]],
    device float* gained [[buffer(4)]],
    device float* squares [[buffer(5)]],
    constant LinearParams& p [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float shares[SHARES];
  const uint row = group * SETS * ROWS + lane;
  const bool mine = simd == 0 && lane < SETS * ROWS && row < p.rows;
  float before = 0.0f, g = 0.0f;
  if (mine) {
    before = h[row];
    g = gain[row];
  }
  share(shares, w, x, p, group, simd, lane);
  if (simd == 0) {
    float now = 0.0f;
    if (mine) {
      now = before + total(shares, lane);
      h[row] = now;
      gained[lane_order(row)] = now * g;
    }
    const float sum = sum_of_eight(now * now);
    if (mine && lane % 8 == 0) squares[row / 8] = sum;
  }
}

// Logits, and of each tile the largest that is allowed: its bits and its id, the lowest of equals. A NaN among those allowed
// stands for all; with none allowed the id is 0xffffffff.
kernel void linear_best(
    device const uchar* w [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device const float* squares [[buffer(2)]],
    device float* logits [[buffer(3)]],
    device const uint* allowed [[buffer(4)]],
    device uint2* partials [[buffer(5)]],
    constant LinearParams& p [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float shares[SHARES];
  const uint tile_rows = SETS * ROWS, tile_shares = tile_rows * SPLIT;
  float parts[8];
  load_squares(parts, squares, p.parts, lane);
  for (uint t = 0; t < TILES; t++) share_tile(shares + t * tile_shares, w, x, p, group * TILES + t, simd, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float scale = inverse_rms_of(parts, squares, p.parts, p.cols, p.eps, lane);
  for (uint t = simd; t < TILES; t += SETS * SPLIT) {
    const uint tile = group * TILES + t, row = tile * tile_rows + lane;
    float y = -INFINITY;
    bool may = false;
    if (lane < tile_rows && row < p.rows) {
      y = total(shares + t * tile_shares, lane) * scale;
      logits[row] = y;
      may = (allowed[row / 32] >> (row % 32) & 1u) != 0u;
    }
    const bool nan = (as_type<uint>(y) & 0x7fffffffu) > 0x7f800000u;
    const float top = simd_max(may && !nan ? y : -INFINITY);
    const uint best = simd_min(may && !nan && y == top ? row : 0xffffffffu);
    const uint bad = simd_min(may && nan ? row : 0xffffffffu);
    if (lane == 0 && tile * tile_rows < p.rows) {
      partials[tile] = bad != 0xffffffffu ? uint2(0x7fc00000u, bad) : uint2(as_type<uint>(top), best);
    }
  }
}
