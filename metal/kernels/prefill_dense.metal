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

// dense_rows computes out[row] = w x[row] for rows of numbers of type T. A tile of rows is at.x, so that neighbours in time
// share the weights of tile at.y.
template <class T, int R, int C>
[[max_total_threads_per_threadgroup(128)]]
kernel void dense_rows(device const uchar* w [[buffer(0)]], device const T* x [[buffer(1)]], device uchar* out [[buffer(2)]],
                       constant DenseShape& shape [[buffer(3)]], uint3 at [[threadgroup_position_in_grid]],
                       uint self [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 memory[Tile<T, R, C>::memory];

  const Coding coding = {BITS, GROUP, TYPE};
  const uint first = at.x * 8 * R, live = min(shape.rows - first, uint(8 * R));
  uint rows[R / 2];
#pragma unroll
  for (uint i = 0; i < R / 2; i++) rows[i] = first + self / 8 + 16 * i;
  WeightRow weights[C / 2];
#pragma unroll
  for (uint i = 0; i < C / 2; i++) {
    const uint n = self / 2 + 64 * i;
    const uint row = END == END_SWIGLU ? paired_row<C>(at.y, n, shape.outputs / 2) : min(at.y * (32 * C) + n, shape.outputs - 1);
    weights[i] = weight_row(weights_at(w, shape.place), row);
  }

  simdgroup_float8x8 acc[R * C];
  multiply_tile<T, R, C>(acc, memory, x, rows, live, weights, coding, shape.cols, self, simd);
  const uint row_bytes = END == END_SWIGLU ? shape.outputs : END == END_F16 ? 2 * shape.stride : 4 * shape.stride;
  store_tile<R, C>(acc, memory, out + ulong(first) * row_bytes, END, shape.outputs, shape.stride, live, at.y, simd, lane);
}

template [[host_name("dense_16x64")]] kernel void dense_rows<half, 2, 2>(device const uchar*, device const half*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_32x64")]] kernel void dense_rows<half, 4, 2>(device const uchar*, device const half*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_64x64")]] kernel void dense_rows<half, 8, 2>(device const uchar*, device const half*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_64x128")]] kernel void dense_rows<half, 8, 4>(device const uchar*, device const half*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_exact_16x64")]] kernel void dense_rows<float, 2, 2>(device const uchar*, device const float*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
template [[host_name("dense_exact_32x64")]] kernel void dense_rows<float, 4, 2>(device const uchar*, device const float*, device uchar*, constant DenseShape&, uint3, uint, uint, uint);
