// Embedding: the row of the step's token, as the first residual and what the first norm needs of it. A lane takes 8
// columns, whose codes fill whole bytes.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];

struct EmbedParams {
  Placed w;
  uint rows;
  uint cols;
};

// Code i of a row.
inline uint code_at(device const uint* words, uint i) {
  const uint bit = i * BITS, word = bit / 32, place = bit % 32;
  uint code = words[word] >> place;
  if (place + BITS > 32) code |= words[word + 1] << (32 - place);
  return code & ((1u << BITS) - 1u);
}

kernel void embed(
    device const uchar* w [[buffer(0)]],
    device const Step* step [[buffer(1)]],
    device float* h [[buffer(2)]],
    device const float* gain [[buffer(3)]],
    device float* gained [[buffer(4)]],
    device float* squares [[buffer(5)]],
    constant EmbedParams& p [[buffer(6)]],
    uint thread_id [[thread_position_in_grid]]) {
  const uint first = thread_id * 8;
  if (first < p.cols) {
    const Weights m = weights_at(w, p.w);
    const ulong row = min(step->token, p.rows - 1);
    device const uchar* codes = m.codes + row * m.row_bytes;
    float2 pair = float2(0.0f, 0.0f);
    if (BITS != 0) pair = load_pair(m.pairs + row * m.pair_bytes, first / GROUP, TYPE);
    float sum = 0.0f;
#pragma unroll
    for (uint i = first; i < first + 8; i++) {
      float v;
      if (BITS == 0) v = load_element(codes, i, TYPE);
      else v = fma(pair.x, float(code_at((device const uint*)codes, i)), pair.y);
      h[i] = v;
      gained[lane_order(i)] = v * gain[i];
      sum = fma(v, v, sum);
    }
    squares[first / 8] = sum;
  }
}
