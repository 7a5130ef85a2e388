// A matrix times many vectors.

constant uint BITS [[function_constant(0)]];
constant uint GROUP [[function_constant(1)]];
constant uint TYPE [[function_constant(2)]];
constant uint END [[function_constant(3)]];

struct DenseShape {
  Placed place;
  uint outputs;  // rows of the matrix
  uint cols;     // inputs, a multiple of 8
  uint rows;     // vectors
  uint stride;   // from a vector's outputs to the next one's, unless SwiGLU
};

// dense_rows computes out[row] = w x[row] for rows of numbers of type T. A tile of 8R rows is at.x, so that neighbours in
// time share the weights of tile at.y.
template <class T, int R>
[[max_total_threads_per_threadgroup(128)]]
kernel void dense_rows(device const uchar* w [[buffer(0)]], device const T* x [[buffer(1)]], device uchar* out [[buffer(2)]],
                       constant DenseShape& shape [[buffer(3)]], uint3 at [[threadgroup_position_in_grid]],
                       uint self [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[TileSize<T, R>::most];

  const Coding coding = {BITS, GROUP, TYPE};
  const uint first = at.x * 8 * R, live = min(shape.rows - first, uint(8 * R));
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = first + self / 8 + 16 * i;
  const uint inner = shape.outputs / 2;
  const uint own = END == END_SWIGLU ? paired_row(at.y, self / 2, inner) : min(at.y * TILE_OUTPUTS + self / 2, shape.outputs - 1);

  simdgroup_float8x8 acc[2 * R];
  multiply_tile<T, R>(acc, memory, x, rows, live, weight_row(weights_at(w, shape.place), own), coding, shape.cols, self, simd);
  threadgroup const float* products = spill_tile<R>(acc, memory, simd);
  if (END == END_SWIGLU) {
    store_swiglu<R>(products, (device bfloat*)out + ulong(first) * inner, inner, live, at.y, simd, lane);
  } else {
    const uint size = END == END_BF16 ? 2 : 4;
    store_products<R>(products, out + ulong(first) * shape.stride * size, END, shape.outputs, shape.stride, live, at.y, simd, lane);
  }
}

template [[host_name("dense_16")]] kernel void dense_rows<bfloat, 2>(device const uchar*, device const bfloat*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_32")]] kernel void dense_rows<bfloat, 4>(device const uchar*, device const bfloat*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_64")]] kernel void dense_rows<bfloat, 8>(device const uchar*, device const bfloat*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_exact_16")]] kernel void dense_rows<float, 2>(device const uchar*, device const float*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_exact_32")]] kernel void dense_rows<float, 4>(device const uchar*, device const float*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
