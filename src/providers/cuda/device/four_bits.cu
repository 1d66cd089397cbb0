// Packing and unpacking of weights of 4 bits in tiles (four_bits.cuh).
#include "providers/cuda/device/four_bits.cuh"
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

// One weight of the original; beyond the matrix 0.
__device__ inline uint32_t WeightAt(const NBitsMatrixArguments& w, int64_t row, int64_t k) {
  if (row >= w.n || k >= w.k) return 0;
  return w.data[row * (w.blocks * w.block_size / 2) + k / 2] >> (k % 2 * 4) & 15;
}

// A warp for each tile.
template <int kBlocks, bool kZeros>
__global__ void PackTiles(PackFourBitsArguments arguments) {
  using Tile = TileOfLane<kBlocks, kZeros>;
  const NBitsMatrixArguments& w = arguments.w;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tiles_of_row = CeilDiv<int64_t>(w.k, kFourBitsTileK);
  const int64_t tiles = CeilDiv<int64_t>(w.n, kFourBitsTileRows) * tiles_of_row;
  for (int64_t index = FirstItem() / kWarp; index < tiles; index += ItemStep() / kWarp) {
    uint8_t* tile = static_cast<uint8_t*>(arguments.packed) + index * Tile::kBytes;
    const int64_t row = index / tiles_of_row * kFourBitsTileRows + lane / 4;
    const int64_t first_k = index % tiles_of_row * kFourBitsTileK;
    uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t k = first_k + j / 2 * 32 + lane % 4 * 8 + j % 2 * 4;
      constexpr int kOrder[4] = {0, 2, 1, 3};
      words[j] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[j] |= WeightAt(w, row, k + kOrder[i]) << (i * 8);
        words[j] |= WeightAt(w, row + 8, k + kOrder[i]) << (i * 8 + 4);
      }
    }
    reinterpret_cast<uint4*>(tile)[lane] = {words[0], words[1], words[2], words[3]};
    if (lane % 4 != 0) continue;
    const int g = lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const int64_t of_row = row + i % 2 * 8;
      const int64_t k = first_k + i / 2 * 32;
      const bool is_inside = of_row < w.n && k < w.k;
      const int64_t block = k / w.block_size;
      reinterpret_cast<__half*>(tile + kTileWeightBytes)[g * 2 * kBlocks + i] =
          is_inside ? static_cast<const __half*>(w.scales)[of_row * w.blocks + block]
                    : FromFloat<__half>(0.0f);
      if constexpr (kZeros) {
        const auto* zeros = static_cast<const uint8_t*>(w.zeros) + of_row * ((w.blocks + 1) / 2);
        tile[kTileWeightBytes + Tile::kScaleBytes + g * 2 * kBlocks + i] =
            is_inside ? static_cast<uint8_t>(zeros[block / 2] >> (block % 2 * 4) & 15) : uint8_t{0};
      }
    }
  }
}

__device__ inline uint32_t Scaled(uint32_t pair, __half2 scale) {
  const __half2 product = __hmul2(reinterpret_cast<const __half2&>(pair), scale);
  return reinterpret_cast<const uint32_t&>(product);
}

// Of 8 float16 numbers those from `first` on become zeros.
__device__ inline void ClearFrom(int first, uint4& values) {
  Pack<__half, 8> pack = reinterpret_cast<const Pack<__half, 8>&>(values);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i >= first) pack.values[i] = FromFloat<__half>(0.0f);
  }
  values = reinterpret_cast<const uint4&>(pack);
}

// A warp for each tile of rows [first_row, first_row + rows), both multiples of 16 where they do not end with
// the matrix.
template <int kBlocks, bool kZeros>
__global__ void UnpackTiles(FourBitsUnpackArguments arguments) {
  using Tile = TileOfLane<kBlocks, kZeros>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto tiles_of_row = static_cast<uint32_t>(CeilDiv<int64_t>(arguments.k, kFourBitsTileK));
  const auto tiles =
      static_cast<uint32_t>(CeilDiv<int64_t>(arguments.rows, kFourBitsTileRows)) * tiles_of_row;
  const int64_t first_tile = arguments.first_row / kFourBitsTileRows * tiles_of_row;
  for (auto index = static_cast<uint32_t>(FirstItem() / kWarp); index < tiles;
       index += static_cast<uint32_t>(ItemStep() / kWarp)) {
    Tile of_lane;
    of_lane.Load(static_cast<const uint8_t*>(arguments.packed) + (first_tile + index) * Tile::kBytes, lane);
    const uint32_t words[4] = {of_lane.weights.x, of_lane.weights.y, of_lane.weights.z, of_lane.weights.w};
    const int row = static_cast<int>(index / tiles_of_row) * static_cast<int>(kFourBitsTileRows) + lane / 4;
    const int first_k = static_cast<int>(index % tiles_of_row) * static_cast<int>(kFourBitsTileK);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = first_k + half * 32 + lane % 4 * 8;
      const FourBitsOffsets offsets(of_lane.Zero(half, 0), of_lane.Zero(half, 1));
      uint32_t a[2][4];
      UnpackFragment(words[half * 2], offsets, a[0]);
      UnpackFragment(words[half * 2 + 1], offsets, a[1]);
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        if (row + upper * 8 >= arguments.rows || k >= arguments.packed_k) continue;
        // A product of two float16 numbers is rounded once.
        const __half2 scale = __float2half2_rn(of_lane.Scale(half, upper));
        uint4 values = {Scaled(a[0][upper], scale), Scaled(a[0][upper + 2], scale),
                        Scaled(a[1][upper], scale), Scaled(a[1][upper + 2], scale)};
        if (k + 8 > arguments.k) ClearFrom(static_cast<int>(arguments.k) - k, values);
        __half* out = static_cast<__half*>(arguments.out) + int64_t{row + upper * 8} * arguments.packed_k + k;
        *reinterpret_cast<uint4*>(out) = values;
      }
    }
  }
}

dim3 GridOfTiles(const LaunchTarget& target, int64_t rows, int64_t k) {
  return GridFor(target,
                 CeilDiv<int64_t>(rows, kFourBitsTileRows) * CeilDiv<int64_t>(k, kFourBitsTileK) * kWarp);
}

}  // namespace

int LaunchPackFourBits(const LaunchTarget& target, const PackFourBitsArguments& arguments) {
  const NBitsMatrixArguments& w = arguments.w;
  return ByTile(w.block_size, w.zeros ? 1 : 0, [&]<int kBlocks, bool kZeros>() {
    return Launch(target, PackTiles<kBlocks, kZeros>, GridOfTiles(target, w.n, w.k), kElementThreads, 0,
                  arguments);
  });
}

int LaunchFourBitsUnpack(const LaunchTarget& target, const FourBitsUnpackArguments& arguments) {
  if (arguments.rows == 0) return 0;
  return ByTile(arguments.block_size, arguments.has_zeros, [&]<int kBlocks, bool kZeros>() {
    return Launch(target, UnpackTiles<kBlocks, kZeros>, GridOfTiles(target, arguments.rows, arguments.k),
                  kElementThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
