// Products with weights of 2, 4 and 8 bits for a few rows, and unpacking of weights for many.
//
// The kernel for any format reads a word of weights a lane and computes in fp32. That for float16 and 4 bits
// reads 16 bytes a lane and multiplies pairs: a nibble q below the exponent of 1024 is the number 1024 + q
// (in the next position 1024 + 16 q), from which the zero point is taken off exactly.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kRows = 2;  // of the matrix, for each warp

__device__ inline int64_t RowBytes(const NBitsMatrixArguments& w) {
  return w.blocks * w.block_size * w.bits / 8;
}

__device__ inline float ZeroAt(const NBitsMatrixArguments& w, int64_t row, int64_t block) {
  if (!w.zeros) return static_cast<float>(1 << (w.bits - 1));
  if (w.zero_type != ElementType::kUint8) return LoadAsFloat(w.zero_type, w.zeros, row * w.blocks + block);
  const int64_t row_bytes = (w.blocks * w.bits + 7) / 8;
  const int64_t bit = block * w.bits;
  const uint8_t byte = static_cast<const uint8_t*>(w.zeros)[row * row_bytes + bit / 8];
  return static_cast<float>(byte >> (bit % 8) & ((1 << w.bits) - 1));
}

template <typename T>
__device__ inline float ScaleAt(const NBitsMatrixArguments& w, int64_t row, int64_t block) {
  return ToFloat(static_cast<const T*>(w.scales)[row * w.blocks + block]);
}

template <typename T>
__device__ inline void StoreWithBias(const NBitsProductArguments& arguments, int64_t m, int64_t row,
                                     float sum) {
  if (arguments.bias) sum += ToFloat(static_cast<const T*>(arguments.bias)[row]);
  static_cast<T*>(arguments.y)[m * arguments.w.n + row] = FromFloat<T>(sum);
}

// Sums of the warps that share rows, in order; lane 0 of the first stores.
template <typename T>
__device__ inline void FinishRows(const NBitsProductArguments& arguments, const float (&sums)[kRows],
                                  int64_t m, int64_t first_row, int splits) {
  __shared__ float partial[kWarps][kRows];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = WarpSum(sums[r]);
    if (lane == 0) partial[warp][r] = sum;
  }
  __syncthreads();
  if (warp % splits != 0 || lane >= kRows || first_row + lane >= arguments.w.n) return;
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += partial[warp + s][lane];
  StoreWithBias<T>(arguments, m, first_row + lane, sum);
}

__device__ inline int64_t FirstRowOfWarp(int splits) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  return (int64_t{blockIdx.x} * (kWarps / splits) + warp / splits) * kRows;
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) AnyBitsVector(NBitsProductArguments arguments, int splits) {
  const NBitsMatrixArguments& w = arguments.w;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first_row = FirstRowOfWarp(splits);
  const int64_t m = blockIdx.y;
  const T* x = static_cast<const T*>(arguments.x) + m * w.k;
  const int fields = 32 / w.bits;  // weights of a word; all of one block
  const uint32_t mask = (1u << w.bits) - 1;
  const int64_t words = RowBytes(w) / 4;
  const int64_t step = int64_t{splits} * kWarp;

  float sums[kRows] = {};
  for (int64_t word = warp % splits * kWarp + lane; word < words; word += step) {
    const int64_t first = word * fields;
    const int64_t block = first / w.block_size;
    uint32_t bits[kRows];
    float products[kRows] = {};
    float total = 0;  // of x: what the zero points multiply
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first_row + r < w.n ? first_row + r : w.n - 1;
      bits[r] = reinterpret_cast<const uint32_t*>(w.data + row * RowBytes(w))[word];
    }
    for (int i = 0; i < fields; ++i) {
      const float value = first + i < w.k ? ToFloat(x[first + i]) : 0.0f;
      total += value;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        products[r] += value * static_cast<float>(bits[r] >> (i * w.bits) & mask);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first_row + r < w.n ? first_row + r : w.n - 1;
      sums[r] += ScaleAt<T>(w, row, block) * (products[r] - ZeroAt(w, row, block) * total);
    }
  }
  FinishRows<T>(arguments, sums, m, first_row, splits);
}

// Activations in shared memory: piece j (8 elements) of chunk c (32 elements, those of a lane's 16 bytes) at
// 16 bytes * ((c / 32 * 4 + j) * 32 + c % 32), so that the lanes of a warp read neighbours; in a piece the
// pairs (0, 4) (1, 5) (2, 6) (3, 7), as nibbles are taken out of a word. A sixteenth of the value, so that
// sums of products stay within float16.
constexpr int kChunk = 32;
constexpr float kDown = 1.0f / 16.0f;

// `whole`: k is a multiple of a piece and x is aligned to 16 bytes.
__device__ inline void StageInputs(const __half* x, int k, int pieces, bool whole, uint4* staged) {
  for (int i = static_cast<int>(threadIdx.x); i < pieces; i += static_cast<int>(blockDim.x)) {
    const int chunk = i / (4 * kWarp) * kWarp + i % kWarp;
    const int first = chunk * kChunk + i / kWarp % 4 * 8;
    Pack<__half, 8> source = {};
    if (whole) {
      if (first < k) source = LoadPack<8>(x + first);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) source.values[j] = first + j < k ? x[first + j] : FromFloat<__half>(0.0f);
    }
    Pack<__half, 8> piece;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      piece.values[2 * pair] = FromFloat<__half>(ToFloat(source.values[pair]) * kDown);
      piece.values[2 * pair + 1] = FromFloat<__half>(ToFloat(source.values[pair + 4]) * kDown);
    }
    staged[i] = reinterpret_cast<const uint4&>(piece);
  }
}

__device__ inline __half2 AsPair(uint32_t bits) { return reinterpret_cast<const __half2&>(bits); }

// The sum of the products of 8 weights with a piece.
__device__ inline float MultiplyWord(uint32_t word, const uint4& piece, __half2 low_zero, __half2 high_zero) {
  constexpr uint32_t kLow = 0x000f000fu;
  constexpr uint32_t kHigh = 0x00f000f0u;
  constexpr uint32_t kExponent = 0x64006400u;  // 1024 in both halves
  const __half2 sixteenth = __float2half2_rn(1.0f / 16.0f);
  const uint32_t upper = word >> 8;
  const __half2 q0 = __hsub2(AsPair((word & kLow) | kExponent), low_zero);
  const __half2 q1 = __hfma2(AsPair((word & kHigh) | kExponent), sixteenth, high_zero);
  const __half2 q2 = __hsub2(AsPair((upper & kLow) | kExponent), low_zero);
  const __half2 q3 = __hfma2(AsPair((upper & kHigh) | kExponent), sixteenth, high_zero);
  __half2 sum = __hfma2(q0, AsPair(piece.x), __float2half2_rn(0.0f));
  sum = __hfma2(q1, AsPair(piece.y), sum);
  sum = __hfma2(q2, AsPair(piece.z), sum);
  sum = __hfma2(q3, AsPair(piece.w), sum);
  const float2 both = __half22float2(sum);
  return both.x + both.y;
}

// What a lane has under way of one chunk of each of its rows.
struct ChunkOfRows {
  uint4 weights[kRows];
  float scales[kRows];
  float zeros[kRows];
};

// Rows of a warp: one that is not there is read as the last, and not stored.
struct RowsOfWarp {
  const uint8_t* weights[kRows];
  const __half* scales[kRows];
  const uint8_t* zeros[kRows];  // null: 8

  __device__ RowsOfWarp(const NBitsMatrixArguments& w, int64_t first_row) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first_row + r < w.n ? first_row + r : w.n - 1;
      weights[r] = w.data + row * RowBytes(w);
      scales[r] = static_cast<const __half*>(w.scales) + row * w.blocks;
      zeros[r] = w.zeros ? static_cast<const uint8_t*>(w.zeros) + row * ((w.blocks + 1) / 2) : nullptr;
    }
  }
  __device__ void Load(int chunk, int block, ChunkOfRows& loaded) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      loaded.weights[r] = LoadOnce(weights[r] + chunk * 16);
      loaded.scales[r] = ToFloat(scales[r][block]);
      loaded.zeros[r] = zeros[r] ? static_cast<float>(zeros[r][block / 2] >> (block % 2 * 4) & 15) : 8.0f;
    }
  }
};

constexpr int kChunksAhead = 4;

// chunk_shift: a block of weights is 2^chunk_shift chunks.
__global__ void __launch_bounds__(kWarps* kWarp)
    FourBitsVector(NBitsProductArguments arguments, int splits, int pieces, int chunk_shift, int whole) {
  const NBitsMatrixArguments& w = arguments.w;
  uint4* staged = DynamicShared<uint4>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t m = blockIdx.y;
  const int64_t first_row = FirstRowOfWarp(splits);
  const RowsOfWarp rows(w, first_row);
  const int chunks = static_cast<int>(RowBytes(w) / 16);
  const int step = splits * kWarp;
  int base = warp % splits * kWarp + lane;
  ChunkOfRows loaded[kChunksAhead];
  const auto load = [&] {
#pragma unroll
    for (int ahead = 0; ahead < kChunksAhead; ++ahead) {
      const int chunk = base + ahead * step;
      if (chunk < chunks) rows.Load(chunk, chunk >> chunk_shift, loaded[ahead]);
    }
  };
  load();  // on its way while the activations are staged
  StageInputs(static_cast<const __half*>(arguments.x) + m * w.k, static_cast<int>(w.k), pieces, whole != 0,
              staged);
  __syncthreads();

  float sums[kRows] = {};
  while (base < chunks) {
#pragma unroll
    for (int ahead = 0; ahead < kChunksAhead; ++ahead) {
      const int chunk = base + ahead * step;
      if (chunk >= chunks) continue;
      uint4 inputs[4];
#pragma unroll
      for (int piece = 0; piece < 4; ++piece) {
        inputs[piece] = staged[(chunk / kWarp * 4 + piece) * kWarp + chunk % kWarp];
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float zero = loaded[ahead].zeros[r];
        const __half2 low_zero = __float2half2_rn(1024.0f + zero);
        const __half2 high_zero = __float2half2_rn(-64.0f - zero);
        const uint4& word = loaded[ahead].weights[r];
        const float sum = MultiplyWord(word.x, inputs[0], low_zero, high_zero) +
                          MultiplyWord(word.y, inputs[1], low_zero, high_zero) +
                          MultiplyWord(word.z, inputs[2], low_zero, high_zero) +
                          MultiplyWord(word.w, inputs[3], low_zero, high_zero);
        sums[r] += loaded[ahead].scales[r] * sum;
      }
    }
    base += step * kChunksAhead;
    load();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] *= 1.0f / kDown;
  FinishRows<__half>(arguments, sums, m, first_row, splits);
}

// A word of weights for each thread; zeros beyond k.
template <typename T>
__global__ void Unpack(NBitsUnpackArguments arguments) {
  const NBitsMatrixArguments& w = arguments.w;
  const int fields = 32 / w.bits;
  const uint32_t mask = (1u << w.bits) - 1;
  const int64_t words = CeilDiv<int64_t>(arguments.packed_k, fields);
  for (int64_t i = FirstItem(); i < arguments.rows * words; i += ItemStep()) {
    const int64_t row = i / words;
    const int64_t word = i % words;
    const int64_t first = word * fields;
    T* out = static_cast<T*>(arguments.out) + row * arguments.packed_k + first;
    uint32_t bits = 0;
    float scale = 0;
    float zero = 0;
    if (first < w.k) {
      const int64_t source = arguments.first_row + row;
      const int64_t block = first / w.block_size;
      bits = reinterpret_cast<const uint32_t*>(w.data + source * RowBytes(w))[word];
      scale = ScaleAt<T>(w, source, block);
      zero = ZeroAt(w, source, block);
    }
    for (int field = 0; field < fields && first + field < arguments.packed_k; ++field) {
      const float q = static_cast<float>(bits >> (field * w.bits) & mask);
      out[field] = FromFloat<T>(first + field < w.k ? (q - zero) * scale : 0.0f);
    }
  }
}

}  // namespace

int LaunchNBitsProduct(const LaunchTarget& target, const NBitsProductArguments& arguments) {
  const NBitsMatrixArguments& w = arguments.w;
  if (arguments.m == 0 || w.n == 0) return 0;
  const int64_t row_bytes = w.blocks * w.block_size * w.bits / 8;
  const auto grid_for = [&](int splits) {
    return dim3(static_cast<unsigned>(CeilDiv(w.n, int64_t{kWarps / splits} * kRows)),
                static_cast<unsigned>(arguments.m));
  };
  const int64_t chunks = row_bytes / 16;
  const int64_t pieces = CeilDiv<int64_t>(chunks, kWarp) * kWarp * 4;
  const bool pairs = arguments.type == ElementType::kFloat16 && w.bits == 4 && w.block_size % kChunk == 0 &&
                     IsAligned(w.data, 16) && pieces * 16 <= 48 * 1024 &&
                     (!w.zeros || w.zero_type == ElementType::kUint8);
  if (pairs) {
    const int splits = VectorSplits(target, w.n, kRows, kWarps, CeilDiv<int64_t>(chunks, kWarp));
    int chunk_shift = 0;
    while ((kChunk << chunk_shift) < w.block_size) ++chunk_shift;
    const bool whole = w.k % 8 == 0 && IsAligned(arguments.x, 16);
    return Launch(target, FourBitsVector, grid_for(splits), kWarps * kWarp, static_cast<size_t>(pieces * 16),
                  arguments, splits, static_cast<int>(pieces), chunk_shift, int{whole});
  }
  const int splits = VectorSplits(target, w.n, kRows, kWarps, CeilDiv<int64_t>(row_bytes / 4, kWarp));
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, AnyBitsVector<T>, grid_for(splits), kWarps * kWarp, 0, arguments, splits);
  });
}

int LaunchNBitsUnpack(const LaunchTarget& target, const NBitsUnpackArguments& arguments) {
  const int64_t words = CeilDiv<int64_t>(arguments.packed_k, 32 / arguments.w.bits) * arguments.rows;
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, Unpack<T>, GridFor(target, words), kElementThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
