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
// tokens[i]. Neighbours in time share the vectors and an expert.
template <int R, int C>
[[max_total_threads_per_threadgroup(128)]]
kernel void expert_gates(device const uchar* experts [[buffer(0)]], device const uint4* tiles [[buffer(1)]],
                         device const uint* tokens [[buffer(2)]], device const half* x [[buffer(3)]],
                         device half* out [[buffer(4)]], constant GroupedShape& shape [[buffer(5)]],
                         uint3 at [[threadgroup_position_in_grid]], uint self [[thread_index_in_threadgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[Tile<half, R, C>::memory];

  const uint4 tile = tiles[at.y];
  if (no_tile(tile)) return;  // the whole threadgroup
  const Coding coding = {BITS, GROUP, TYPE};
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = tokens[tile.y + min(self / 8 + 16 * i, tile.z - 1)];
  const uint inner = shape.outputs / 2;
  const Weights w = weights_at(experts + ulong(tile.x) * shape.stride * 16, shape.place);
  WeightRow weights[C / 2];
#pragma unroll
  for (uint i = 0; i < C / 2; i++) weights[i] = weight_row(w, paired_row<C>(at.x, self / 2 + 64 * i, inner));

  simdgroup_float8x8 acc[R * C];
  multiply_tile<half, R, C>(acc, memory, x, rows, tile.z, weights, coding, shape.cols, self, simd);
  store_tile<R, C>(acc, memory, (device uchar*)(out + ulong(tile.y) * inner), END, shape.outputs, inner, tile.z, at.x, simd, lane);
}

// expert_downs computes out[i] = down x[i] for tile at.y of the rows in the order of experts.
template <int R, int C>
[[max_total_threads_per_threadgroup(128)]]
kernel void expert_downs(device const uchar* experts [[buffer(0)]], device const uint4* tiles [[buffer(1)]],
                         device const half* x [[buffer(2)]], device uchar* out [[buffer(3)]],
                         constant GroupedShape& shape [[buffer(4)]], uint3 at [[threadgroup_position_in_grid]],
                         uint self [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[Tile<half, R, C>::memory];

  const uint4 tile = tiles[at.y];
  if (no_tile(tile)) return;
  const Coding coding = {BITS, GROUP, TYPE};
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = tile.y + self / 8 + 16 * i;
  const Weights w = weights_at(experts + ulong(tile.x) * shape.stride * 16, shape.place);
  WeightRow weights[C / 2];
#pragma unroll
  for (uint i = 0; i < C / 2; i++) weights[i] = weight_row(w, min(at.x * (32 * C) + self / 2 + 64 * i, shape.outputs - 1));

  simdgroup_float8x8 acc[R * C];
  multiply_tile<half, R, C>(acc, memory, x, rows, tile.z, weights, coding, shape.cols, self, simd);
  const uint size = END == END_F16 ? 2 : 4;
  store_tile<R, C>(acc, memory, out + ulong(tile.y) * shape.outputs * size, END, shape.outputs, shape.outputs, tile.z, at.x, simd, lane);
}

template [[host_name("expert_gates_16x64")]] kernel void expert_gates<2, 2>(device const uchar*, device const uint4*, device const uint*, device const half*, device half*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_gates_32x64")]] kernel void expert_gates<4, 2>(device const uchar*, device const uint4*, device const uint*, device const half*, device half*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_gates_64x64")]] kernel void expert_gates<8, 2>(device const uchar*, device const uint4*, device const uint*, device const half*, device half*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_gates_64x128")]] kernel void expert_gates<8, 4>(device const uchar*, device const uint4*, device const uint*, device const half*, device half*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_16x64")]] kernel void expert_downs<2, 2>(device const uchar*, device const uint4*, device const half*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_32x64")]] kernel void expert_downs<4, 2>(device const uchar*, device const uint4*, device const half*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_64x64")]] kernel void expert_downs<8, 2>(device const uchar*, device const uint4*, device const half*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
template [[host_name("expert_downs_64x128")]] kernel void expert_downs<8, 4>(device const uchar*, device const uint4*, device const half*, device uchar*, constant GroupedShape&, uint3, uint, uint, uint);
