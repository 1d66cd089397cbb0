// Products of many rows with a packed matrix by the matrix units: tiles of 128 x 64 of the result, 8 warps of
// 32 x 32 each, k in steps of 32 through shared memory, the next step on its way while one is computed.
#include "providers/cuda/device/platform.cuh"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTileM = 128;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kRowStride = kTileK + 8;  // of shared memory: the lanes of a fragment fall into 32 banks
constexpr int kWidth = 8;               // elements of one 16-byte access
constexpr int kPacksOfX = kTileM * kTileK / kWidth / kThreads;
constexpr int kPacksOfB = kTileN * kTileK / kWidth / kThreads;

// 8 elements of a row, zeros beyond `rows` and `k`. `whole`: a pack never crosses k and is aligned.
template <typename T>
__device__ inline uint4 LoadTilePack(const T* matrix, int64_t stride, int64_t row, int64_t rows,
                                     int64_t first, int64_t k, bool whole) {
  uint4 value = {0, 0, 0, 0};
  if (row >= rows || first >= k) return value;
  const T* source = matrix + row * stride + first;
  if (whole) return *reinterpret_cast<const uint4*>(source);
  auto& pack = reinterpret_cast<Pack<T, kWidth>&>(value);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (first + i < k) pack.values[i] = source[i];
  }
  return value;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) TileProduct(ProductArguments arguments, int whole_x) {
  __shared__ __align__(16) uint16_t shared_x[kTileM * kRowStride];
  __shared__ __align__(16) uint16_t shared_b[kTileN * kRowStride];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int64_t first_m = int64_t{blockIdx.y} * kTileM;
  const int64_t first_n = int64_t{blockIdx.x} * kTileN;
  const int warp_m = warp / 2 * 32;
  const int warp_n = warp % 2 * 32;
  const T* x = static_cast<const T*>(arguments.x);
  const T* b = static_cast<const T*>(arguments.b);

  uint4 next_x[kPacksOfX];
  uint4 next_b[kPacksOfB];
  const auto fetch = [&](int64_t first_k) {
#pragma unroll
    for (int i = 0; i < kPacksOfX; ++i) {
      const int pack = thread + i * kThreads;
      next_x[i] = LoadTilePack(x, arguments.x_stride, first_m + pack / 4, arguments.m,
                               first_k + pack % 4 * kWidth, arguments.k, whole_x != 0);
    }
#pragma unroll
    for (int i = 0; i < kPacksOfB; ++i) {
      const int pack = thread + i * kThreads;
      next_b[i] = LoadTilePack(b, arguments.packed_k, first_n + pack / 4, arguments.n,
                               first_k + pack % 4 * kWidth, arguments.packed_k, true);
    }
  };

  float sums[2][4][4] = {};
  fetch(0);
  for (int64_t first_k = 0; first_k < arguments.packed_k; first_k += kTileK) {
    __syncthreads();  // the step before has been read
#pragma unroll
    for (int i = 0; i < kPacksOfX; ++i) {
      const int pack = thread + i * kThreads;
      *reinterpret_cast<uint4*>(&shared_x[pack / 4 * kRowStride + pack % 4 * kWidth]) = next_x[i];
    }
#pragma unroll
    for (int i = 0; i < kPacksOfB; ++i) {
      const int pack = thread + i * kThreads;
      *reinterpret_cast<uint4*>(&shared_b[pack / 4 * kRowStride + pack % 4 * kWidth]) = next_b[i];
    }
    __syncthreads();
    if (first_k + kTileK < arguments.packed_k) fetch(first_k + kTileK);
#pragma unroll
    for (int k = 0; k < kTileK; k += 16) {
      const int column = k + lane % 4 * 2;
      uint32_t fragments_x[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = (warp_m + i * 16 + lane / 4) * kRowStride + column;
        fragments_x[i][0] = LoadPair(shared_x, at);
        fragments_x[i][1] = LoadPair(shared_x, at + 8 * kRowStride);
        fragments_x[i][2] = LoadPair(shared_x, at + 8);
        fragments_x[i][3] = LoadPair(shared_x, at + 8 * kRowStride + 8);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = (warp_n + j * 8 + lane / 4) * kRowStride + column;
        const uint32_t fragment_b[2] = {LoadPair(shared_b, at), LoadPair(shared_b, at + 8)};
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyFragments<T>(sums[i][j], fragments_x[i], fragment_b);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int64_t row = first_m + warp_m + i * 16 + lane / 4 + part / 2 * 8;
        const int64_t column = first_n + warp_n + j * 8 + lane % 4 * 2 + part % 2;
        if (row < arguments.m && column < arguments.n) {
          StoreProduct<T>(arguments, row, column, sums[i][j][part]);
        }
      }
    }
  }
}

}  // namespace

int LaunchTileProduct(const LaunchTarget& target, const ProductArguments& arguments) {
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(arguments.n, kTileN)),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kTileM)));
  const bool whole_x =
      arguments.k % kWidth == 0 && arguments.x_stride % kWidth == 0 && IsAligned(arguments.x, 16);
  if (arguments.type == ElementType::kFloat16) {
    return Launch(target, TileProduct<__half>, grid, kThreads, 0, arguments, int{whole_x});
  }
  return Launch(target, TileProduct<__nv_bfloat16>, grid, kThreads, 0, arguments, int{whole_x});
}

}  // namespace lamina::cuda
