// The embeddings of many tokens.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];

constant constexpr uint ROW_THREADS = 256;

struct EmbedShape {
  Placed place;
  uint rows;  // of the table
  uint cols;
};

// Code i of a row.
INLINE uint code_of(device const uint* words, uint i) {
  const uint bit = i * BITS, word = bit / 32, place = bit % 32;
  uint code = words[word] >> place;
  if (place + BITS > 32) code |= words[word + 1] << (32 - place);
  return code & ((1u << BITS) - 1u);
}

// embed_rows writes the embedding of token ids[at.x] as floats; a token beyond the table takes its last row.
kernel void embed_rows(device const uchar* table [[buffer(0)]], device const uint* ids [[buffer(1)]],
                       device float* h [[buffer(2)]], constant EmbedShape& shape [[buffer(3)]],
                       uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]]) {
  const Weights w = weights_at(table, shape.place);
  const ulong row = min(ids[at.x], shape.rows - 1);
  device const uchar* codes = w.codes + row * w.row_bytes;
  device float* out = h + ulong(at.x) * shape.cols;
  for (uint c = self; c < shape.cols; c += ROW_THREADS) {
    if (BITS == 0) {
      out[c] = load_element(codes, c, TYPE);
    } else {
      const float2 pair = load_pair(w.pairs + row * w.pair_bytes, c / GROUP, TYPE);
      out[c] = fma(pair.x, float(code_of((device const uint*)codes, c)), pair.y);
    }
  }
}
