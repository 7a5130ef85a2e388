// The experts of many tokens: every expert's rows together, in tiles.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];
constant uint END [[function_constant(3)]];

struct GroupedShape {
  Placed place;  // in an expert's record
  uint outputs;  // rows of the matrix
  uint cols;     // inputs, a multiple of 8
  uint stride;   // from expert to expert, in 16 bytes
};

// The map that group_rows makes has tiles {expert, first row, rows, 0}: rows in the order of experts. Those after the last
// are zeros, and left at once.
INLINE bool no_tile(uint4 tile) { return !any(tile != uint4(0)); }

// expert_gates computes out[i] = silu(gate x) * (up x) for tile at.y of the rows in the order of experts, x being vector
// tokens[i]. Tile at.x is of 32 outputs, so that neighbours in time share the vectors and an expert.
template <int R>
[[max_total_threads_per_threadgroup(128)]]
kernel void expert_gates(device const uchar* experts [[buffer(0)]], device const uint4* tiles [[buffer(1)]],
                         device const uint* tokens [[buffer(2)]], device const bfloat* x [[buffer(3)]],
                         device bfloat* out [[buffer(4)]], constant GroupedShape& shape [[buffer(5)]],
                         uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[TileSize<bfloat, R>::most];

  const uint4 tile = tiles[at.y];
  if (no_tile(tile)) return;  // the whole threadgroup
  const Coding coding = {BITS, GROUP, TYPE};
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = tokens[tile.y + min(self / 8 + 16 * i, tile.z - 1)];
  const uint inner = shape.outputs / 2;
  const Weights w = weights_at(experts + ulong(tile.x) * shape.stride * 16, shape.place);

  simdgroup_float8x8 acc[2 * R];
  multiply_tile<bfloat, R>(acc, memory, x, rows, tile.z, weight_row(w, paired_row(at.x, self / 2, inner)), coding,
                           shape.cols, self, simd);
  threadgroup const float* products = spill_tile<R>(acc, memory, simd);
  store_swiglu<R>(products, out + ulong(tile.y) * inner, inner, tile.z, at.x, simd, lane);
}

// expert_downs computes out[i] = down x[i] for tile at.y of the rows in the order of experts.
template <int R>
[[max_total_threads_per_threadgroup(128)]]
kernel void expert_downs(device const uchar* experts [[buffer(0)]], device const uint4* tiles [[buffer(1)]],
                         device const bfloat* x [[buffer(2)]], device uchar* out [[buffer(3)]],
                         constant GroupedShape& shape [[buffer(4)]], uint3 at [[threadgroup_position_in_grid]],
                         uint self [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[TileSize<bfloat, R>::most];

  const uint4 tile = tiles[at.y];
  if (no_tile(tile)) return;
  const Coding coding = {BITS, GROUP, TYPE};
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = tile.y + self / 8 + 16 * i;
  const uint own = min(at.x * TILE_OUTPUTS + self / 2, shape.outputs - 1);
  const Weights w = weights_at(experts + ulong(tile.x) * shape.stride * 16, shape.place);

  simdgroup_float8x8 acc[2 * R];
  multiply_tile<bfloat, R>(acc, memory, x, rows, tile.z, weight_row(w, own), coding, shape.cols, self, simd);
  threadgroup const float* products = spill_tile<R>(acc, memory, simd);
  const uint size = END == END_BF16 ? 2 : 4;
  store_products<R>(products, out + ulong(tile.y) * shape.outputs * size, END, shape.outputs, shape.outputs, tile.z, at.x, simd, lane);
}

template [[host_name("expert_gates_16")]] kernel void expert_gates<2>(device const uchar*, device const uint4*, device const uint*, device const bfloat*, device bfloat*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_gates_32")]] kernel void expert_gates<4>(device const uchar*, device const uint4*, device const uint*, device const bfloat*, device bfloat*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_gates_64")]] kernel void expert_gates<8>(device const uchar*, device const uint4*, device const uint*, device const bfloat*, device bfloat*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_16")]] kernel void expert_downs<2>(device const uchar*, device const uint4*, device const bfloat*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_32")]] kernel void expert_downs<4>(device const uchar*, device const uint4*, device const bfloat*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_64")]] kernel void expert_downs<8>(device const uchar*, device const uint4*, device const bfloat*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
