// What every kernel may use. The text of this file and of dot.metal stands in front of each of the others.
#include <metal_stdlib>
using namespace metal;

// Function constants reach the arguments of helpers, and so decide which loads and loops are left, only by inlining.
#define INLINE inline __attribute__((always_inline))

// The state of a sequence between tokens. Kernels read it from memory, so a token's dispatches never change.
struct Step {
  uint token;     // to compute
  uint position;  // tokens before it
  uint slot_in;   // state slot read
  uint slot_out;  // state slot written
  uint table;     // index of the sequence's first entry in the block table
  uint produced;  // sampled tokens so far
};

constant constexpr uint BF16 = 0;
constant constexpr uint F16 = 1;
constant constexpr uint F32 = 2;

// The two bf16 numbers of a word, as floats. Widening is exact.
inline float low_bf16(uint pair) { return as_type<float>(pair << 16); }
inline float high_bf16(uint pair) { return as_type<float>(pair & 0xffff0000u); }

// Where element c of a vector that matrices are multiplied with lies: in lane order. A lane multiplies 32 consecutive columns
// of a quantised row, so in natural order neighbouring lanes would load 16 bytes each from places 128 bytes apart. Here each
// 256 elements, eight lanes' times eight loads' 4, are transposed: what eight lanes load at once is 128 bytes in one piece. Who
// writes such a vector writes single elements, which costs nothing in any order. Such vectors are fp32, and their rooms
// multiples of 256. The host's LaneOrder.
INLINE uint lane_order(uint c) { return (c & ~0xfcu) | (c >> 3 & 0x1cu) | (c << 3 & 0xe0u); }
INLINE uint lane_room(uint cols) { return (cols + 255u) & ~255u; }

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline float silu(float x) { return x / (1.0f + exp(-x)); }

// 1/rms of a residual vector of size elements, from its partial sums of squares. Every lane of the simdgroup calls it and
// gets the result; the order of the sum is fixed.
inline float inverse_rms(device const float* squares, uint parts, uint size, float eps, uint lane) {
  float sum = 0.0f;
  for (uint i = lane; i < parts; i += 32) sum += squares[i];
  return rsqrt(simd_sum(sum) / float(size) + eps);
}

// inverse_rms in two halves, for kernels with other loads to wait for: first what it needs of up to 256 parts is loaded,
// later summed, in the same order.
INLINE void load_squares(thread float* v, device const float* squares, uint parts, uint lane) {
#pragma unroll
  for (uint i = 0; i < 8; i++) {
    const float square = squares[min(lane + 32 * i, parts - 1)];
    v[i] = lane + 32 * i < parts ? square : 0.0f;
  }
}

INLINE float inverse_rms_of(thread const float* v, device const float* squares, uint parts, uint size, float eps, uint lane) {
  float sum = 0.0f;
#pragma unroll
  for (uint i = 0; i < 8; i++) sum += v[i];
  for (uint i = lane + 256; i < parts; i += 32) sum += squares[i];
  return rsqrt(simd_sum(sum) / float(size) + eps);
}

// The sum over each 8 neighbouring lanes, in all of them.
inline float sum_of_eight(float x) {
  x += simd_shuffle_xor(x, 1);
  x += simd_shuffle_xor(x, 2);
  return x + simd_shuffle_xor(x, 4);
}
