// Weights of 4 bits as the matrix units take them.
//
// Tiles of 16 rows by 64 of k, those of the same rows one after the other. A tile is 512 bytes of weights, 16
// for each lane of a warp, then its scales and its zero points. With g = lane / 4 and t = lane % 4, word j of
// a lane holds rows g and g + 8 at k = 32 (j / 2) + 8 t + 4 (j % 2) + 0 to 3: the nibbles, low to high,
//   (g, 0) (g + 8, 0) (g, 2) (g + 8, 2) (g, 1) (g + 8, 1) (g, 3) (g + 8, 3)
// are the fragments of MultiplyFragments in the order in which two masks take them out, with k counted in
// this order. Scales: for each g those of rows g and g + 8 for each block of the tile (kBlocks: 2 blocks of
// 32, or one). Zero points: a byte each in the same order. What is beyond the matrix has scales of zero.
#pragma once

#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {

template <int kBlocks>
struct TileBlocks;
template <>
struct TileBlocks<1> {
  using Scales = Pack<__half, 2>;
  using Zeros = Pack<uint8_t, 2>;
};
template <>
struct TileBlocks<2> {
  using Scales = Pack<__half, 4>;
  using Zeros = Pack<uint8_t, 4>;
};

constexpr int kTileWeightBytes = 512;

// What a lane has of a tile.
template <int kBlocks, bool kZeros>
struct TileOfLane {
  uint4 weights;
  typename TileBlocks<kBlocks>::Scales scales;
  typename TileBlocks<kBlocks>::Zeros zeros;

  static constexpr int kScaleBytes = 8 * sizeof(scales);
  static constexpr int kBytes = kTileWeightBytes + kScaleBytes + (kZeros ? 8 * int{sizeof(zeros)} : 0);

  __device__ void Load(const uint8_t* tile, int lane) {
    weights = LoadOnce(tile + lane * 16);
    LoadFactors(tile, lane);
  }
  __device__ void LoadShared(const uint8_t* tile, int lane) {
    weights = reinterpret_cast<const uint4*>(tile)[lane];
    LoadFactors(tile, lane);
  }
  __device__ void LoadFactors(const uint8_t* tile, int lane) {
    scales = reinterpret_cast<const decltype(scales)*>(tile + kTileWeightBytes)[lane / 4];
    if constexpr (kZeros) {
      zeros = reinterpret_cast<const decltype(zeros)*>(tile + kTileWeightBytes + kScaleBytes)[lane / 4];
    }
  }
  // Of row g, or g + 8 where `upper` is 1, in a block of the tile.
  __device__ float Scale(int block, int upper) const {
    return ToFloat(scales.values[(kBlocks == 2 ? block * 2 : 0) + upper]);
  }
  __device__ float Zero(int block, int upper) const {
    if constexpr (!kZeros) return 8.0f;
    return static_cast<float>(zeros.values[(kBlocks == 2 ? block * 2 : 0) + upper]);
  }
};

// The four registers of a fragment, less their zero points: exact, because 1024 + q and 1024 + 16 q are
// float16 numbers.
struct FourBitsOffsets {
  __half2 low;   // 1024 + zero point of row g
  __half2 high;  // -64 - zero point of row g + 8

  __device__ FourBitsOffsets(float zero_of_g, float zero_of_g8)
      : low(__float2half2_rn(1024.0f + zero_of_g)), high(__float2half2_rn(-64.0f - zero_of_g8)) {}
};

__device__ inline void UnpackFragment(uint32_t word, const FourBitsOffsets& offsets, uint32_t (&a)[4]) {
  constexpr uint32_t kLow = 0x000f000fu;
  constexpr uint32_t kHigh = 0x00f000f0u;
  constexpr uint32_t kExponent = 0x64006400u;  // 1024 in both halves
  const __half2 sixteenth = __float2half2_rn(1.0f / 16.0f);
  const auto pair = [](uint32_t bits) { return reinterpret_cast<const __half2&>(bits); };
  const auto bits = [](__half2 value) { return reinterpret_cast<const uint32_t&>(value); };
  const uint32_t upper = word >> 8;
  a[0] = bits(__hsub2(pair((word & kLow) | kExponent), offsets.low));
  a[1] = bits(__hfma2(pair((word & kHigh) | kExponent), sixteenth, offsets.high));
  a[2] = bits(__hsub2(pair((upper & kLow) | kExponent), offsets.low));
  a[3] = bits(__hfma2(pair((upper & kHigh) | kExponent), sixteenth, offsets.high));
}

// Calls launch<kBlocks, kZeros>().
template <typename F>
int ByTile(int32_t block_size, int32_t has_zeros, F launch) {
  if (block_size == 32) {
    return has_zeros != 0 ? launch.template operator()<2, true>() : launch.template operator()<2, false>();
  }
  return has_zeros != 0 ? launch.template operator()<1, true>() : launch.template operator()<1, false>();
}

}  // namespace lamina::cuda
