// Products of float16 with weights of 4 bits in tiles (four_bits.cuh) for a few rows, packing and unpacking.
//
// A block takes 16 rows of the matrix and up to 8 rows of x; its warps share k, a tile each in turn, several
// tiles of each under way at once. The matrix units do the products, 7 of 8 of their columns for nothing
// where x has one row: what counts is that a weight takes less than two instructions.
#include "providers/cuda/device/four_bits.cuh"
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kColumns = 8;  // rows of x at a time
// Tiles of a warp that are under way at once: as many as registers hold.
template <bool kZeros, int kWarps>
constexpr int kTilesAheadOf = kZeros&& kWarps > 8 ? 2 : 4;
// Blocks on a multiprocessor.
template <int kWarps>
constexpr int kBlocksOf = kWarps > 8 ? 2 : 3;

// How far k and x are from what tiles would like.
enum class Inputs {
  kExact,  // k is a multiple of a tile's; rows of x are aligned to 16 bytes
  kWhole,  // k is a multiple of 8; rows of x are aligned to 16 bytes
  kAny,
};

// x at k = first to first + 7 for a lane; zeros beyond.
template <Inputs kInputs>
__device__ inline uint4 LoadInputs(const __half* x, int64_t first, int64_t k) {
  if constexpr (kInputs == Inputs::kExact) {
    return *reinterpret_cast<const uint4*>(x + first);
  } else if constexpr (kInputs == Inputs::kWhole) {
    return first < k ? *reinterpret_cast<const uint4*>(x + first) : uint4{0, 0, 0, 0};
  } else {
    Pack<__half, 8> pack;
#pragma unroll
    for (int i = 0; i < 8; ++i) pack.values[i] = first + i < k ? x[first + i] : FromFloat<__half>(0.0f);
    return reinterpret_cast<const uint4&>(pack);
  }
}

// sums (those of MultiplyFragments) += what the tile gives for the rows of x; x null: no row for this lane.
template <int kBlocks, bool kZeros, Inputs kInputs>
__device__ inline void MultiplyTile(const TileOfLane<kBlocks, kZeros>& of_lane, const __half* x, int tile,
                                    int64_t k, float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t words[4] = {of_lane.weights.x, of_lane.weights.y, of_lane.weights.z, of_lane.weights.w};
  uint4 inputs[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int first = tile * static_cast<int>(kFourBitsTileK) + half * 32 + lane % 4 * 8;
    if (x) inputs[half] = LoadInputs<kInputs>(x, first, k);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const FourBitsOffsets offsets(of_lane.Zero(half, 0), of_lane.Zero(half, 1));
    float products[4] = {};
    uint32_t a[4];
    UnpackFragment(words[half * 2], offsets, a);
    MultiplyFragments<__half>(products, a, {inputs[half].x, inputs[half].y});
    UnpackFragment(words[half * 2 + 1], offsets, a);
    MultiplyFragments<__half>(products, a, {inputs[half].z, inputs[half].w});
    const float scale_of_g = of_lane.Scale(half, 0);
    const float scale_of_g8 = of_lane.Scale(half, 1);
    sums[0] += scale_of_g * products[0];
    sums[1] += scale_of_g * products[1];
    sums[2] += scale_of_g8 * products[2];
    sums[3] += scale_of_g8 * products[3];
  }
}

// Adds up the warps' sums in their order and stores the block's results.
template <int kWarps>
__device__ inline void FinishTile(const FourBitsProductArguments& arguments, int64_t first_row,
                                  const float (&sums)[4],
                                  float (&partial)[kWarps][kFourBitsTileRows][kColumns]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int row = lane / 4;
  const int first_column = lane % 4 * 2;
  partial[warp][row][first_column] = sums[0];
  partial[warp][row][first_column + 1] = sums[1];
  partial[warp][row + 8][first_column] = sums[2];
  partial[warp][row + 8][first_column + 1] = sums[3];
  __syncthreads();
  const int own_row = thread % kFourBitsTileRows;
  const int own_column = thread / kFourBitsTileRows;
  const int64_t n = int64_t{blockIdx.x} * kFourBitsTileRows + own_row;
  const int64_t m = first_row + own_column;
  if (own_column >= kColumns || n >= arguments.n || m >= arguments.m) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += partial[w][own_row][own_column];
  if (arguments.bias) sum += ToFloat(static_cast<const __half*>(arguments.bias)[n]);
  static_cast<__half*>(arguments.y)[m * arguments.n + n] = FromFloat<__half>(sum);
}

template <int kBlocks, bool kZeros, Inputs kInputs, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp, kBlocksOf<kWarps>)
    TiledProduct(FourBitsProductArguments arguments) {
  using Tile = TileOfLane<kBlocks, kZeros>;
  constexpr int kTilesAhead = kTilesAheadOf<kZeros, kWarps>;
  __shared__ float partial[kWarps][kFourBitsTileRows][kColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int tiles = static_cast<int>(CeilDiv<int64_t>(arguments.k, kFourBitsTileK));
  const uint8_t* row_of_tiles =
      static_cast<const uint8_t*>(arguments.packed) + int64_t{blockIdx.x} * tiles * Tile::kBytes;
  Tile loaded[kTilesAhead];
  const auto load = [&](int first) {
#pragma unroll
    for (int ahead = 0; ahead < kTilesAhead; ++ahead) {
      const int tile = first + ahead * kWarps;
      if (tile < tiles) loaded[ahead].Load(row_of_tiles + int64_t{tile} * Tile::kBytes, lane);
    }
  };
  load(warp);  // weights depend on no kernel before
  AllowNext();
  AwaitPrevious();

  const int64_t first_row = int64_t{blockIdx.y} * kColumns;
  const int column = lane / 4;
  const bool has_column = first_row + column < arguments.m;
  const __half* x =
      static_cast<const __half*>(arguments.x) + (has_column ? first_row + column : 0) * arguments.k;
  float sums[4] = {};
  for (int base = warp; base < tiles; base += kTilesAhead * kWarps) {
#pragma unroll
    for (int ahead = 0; ahead < kTilesAhead; ++ahead) {
      const int tile = base + ahead * kWarps;
      if (tile >= tiles) continue;
      const Tile& of_lane = loaded[ahead];
      MultiplyTile<kBlocks, kZeros, kInputs>(of_lane, has_column ? x : nullptr, tile, arguments.k, sums);
    }
    load(base + kTilesAhead * kWarps);
  }

  FinishTile<kWarps>(arguments, first_row, sums, partial);
}

#if !defined(LAMINA_CUDA_EMULATION) && defined(__CUDACC__)

constexpr int kCopyWarps = 8;
constexpr int kTilesOfStage = 4;
constexpr int kMaxStages = 4;

// The same where the copy engine brings tiles to shared memory: far more of them are under way than registers
// hold. A warp has stages of its own, so that it waits for no other. Dynamic shared memory: [kCopyWarps]
// [stages][kTilesOfStage] tiles.
template <int kBlocks, bool kZeros>
__global__ void __launch_bounds__(kCopyWarps* kWarp)
    CopiedProduct(FourBitsProductArguments arguments, int stages) {
#if __CUDA_ARCH__ >= 900
  using Tile = TileOfLane<kBlocks, kZeros>;
  constexpr int kStageBytes = kTilesOfStage * Tile::kBytes;
  __shared__ float partial[kCopyWarps][kFourBitsTileRows][kColumns];
  __shared__ CopyBarrier barriers[kCopyWarps][kMaxStages];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int tiles = static_cast<int>(CeilDiv<int64_t>(arguments.k, kFourBitsTileK));
  const int tiles_of_warp = CeilDiv(tiles, kCopyWarps);
  const int begin = warp * tiles_of_warp;
  const int end = begin + tiles_of_warp < tiles ? begin + tiles_of_warp : tiles;
  const uint8_t* source =
      static_cast<const uint8_t*>(arguments.packed) + int64_t{blockIdx.x} * tiles * Tile::kBytes;
  uint8_t* const stages_of_warp = DynamicShared<uint8_t>() + warp * stages * kStageBytes;
  const auto start = [&](int stage, int tile) {
    const int count = end - tile < kTilesOfStage ? end - tile : kTilesOfStage;
    if (count <= 0) return;
    barriers[warp][stage].Copy(stages_of_warp + stage * kStageBytes, source + int64_t{tile} * Tile::kBytes,
                               static_cast<uint32_t>(count * Tile::kBytes));
  };
  if (lane == 0) {  // weights depend on no kernel before
    for (int stage = 0; stage < stages; ++stage) barriers[warp][stage].Init();
    for (int stage = 0; stage < stages; ++stage) start(stage, begin + stage * kTilesOfStage);
  }
  __syncwarp();
  AllowNext();
  AwaitPrevious();

  const int64_t first_row = int64_t{blockIdx.y} * kColumns;
  const int column = lane / 4;
  const __half* x = first_row + column < arguments.m
                        ? static_cast<const __half*>(arguments.x) + (first_row + column) * arguments.k
                        : nullptr;
  float sums[4] = {};
  int stage = 0;
  uint32_t parity = 0;
  for (int first = begin; first < end; first += kTilesOfStage) {
    barriers[warp][stage].Wait(parity);
    const uint8_t* tile = stages_of_warp + stage * kStageBytes;
#pragma unroll
    for (int i = 0; i < kTilesOfStage; ++i) {
      if (first + i >= end) continue;
      Tile of_lane;
      of_lane.LoadShared(tile + i * Tile::kBytes, lane);
      MultiplyTile<kBlocks, kZeros, Inputs::kExact>(of_lane, x, first + i, arguments.k, sums);
    }
    __syncwarp();  // all lanes have read the stage
    if (lane == 0) start(stage, first + stages * kTilesOfStage);
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  FinishTile<kCopyWarps>(arguments, first_row, sums, partial);
#endif
}

template <int kBlocks, bool kZeros>
int LaunchCopied(const LaunchTarget& target, dim3 grid, const FourBitsProductArguments& arguments) {
  const auto tiles_of_warp =
      static_cast<int>(CeilDiv<int64_t>(CeilDiv<int64_t>(arguments.k, kFourBitsTileK), kCopyWarps));
  const int needed = CeilDiv(tiles_of_warp, kTilesOfStage);
  const int stages = needed < kMaxStages ? needed : kMaxStages;
  const auto shared_bytes =
      static_cast<size_t>(kCopyWarps * stages * kTilesOfStage * TileOfLane<kBlocks, kZeros>::kBytes);
  return LaunchOverlapped(target, CopiedProduct<kBlocks, kZeros>, grid, kCopyWarps * kWarp, shared_bytes,
                          arguments, stages);
}

bool CanCopy(const LaunchTarget& target) { return CanOverlap(target); }

#else

bool CanCopy(const LaunchTarget&) { return false; }
template <int kBlocks, bool kZeros>
int LaunchCopied(const LaunchTarget&, dim3, const FourBitsProductArguments&) {
  return kErrorNotSupported;
}

#endif

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

// Calls launch<kBlocks, kZeros>().
template <typename F>
int ByTile(int32_t block_size, int32_t has_zeros, F launch) {
  if (block_size == 32) {
    return has_zeros != 0 ? launch.template operator()<2, true>() : launch.template operator()<2, false>();
  }
  return has_zeros != 0 ? launch.template operator()<1, true>() : launch.template operator()<1, false>();
}

dim3 GridOfTiles(const LaunchTarget& target, int64_t rows, int64_t k) {
  return GridFor(target,
                 CeilDiv<int64_t>(rows, kFourBitsTileRows) * CeilDiv<int64_t>(k, kFourBitsTileK) * kWarp);
}

}  // namespace

int LaunchFourBitsProduct(const LaunchTarget& target, const FourBitsProductArguments& arguments) {
  if (arguments.m == 0 || arguments.n == 0) return 0;
  const int64_t row_tiles = CeilDiv<int64_t>(arguments.n, kFourBitsTileRows);
  const dim3 grid(static_cast<unsigned>(row_tiles),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kColumns)));
  const bool whole = arguments.k % 8 == 0 && IsAligned(arguments.x, 16);
  const bool exact = whole && arguments.k % kFourBitsTileK == 0;
  // More warps share k where the rows alone give a multiprocessor little to do.
  const bool few = row_tiles <= 2 * int64_t{target.multiprocessors};
  return ByTile(arguments.block_size, arguments.has_zeros, [&]<int kBlocks, bool kZeros>() {
    if (exact && few) {
      return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kExact, 16>, grid, 16 * kWarp, 0,
                              arguments);
    }
    if (exact && CanCopy(target)) return LaunchCopied<kBlocks, kZeros>(target, grid, arguments);
    if (whole) {
      return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kWhole, 8>, grid, 8 * kWarp, 0,
                              arguments);
    }
    return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kAny, 8>, grid, 8 * kWarp, 0,
                            arguments);
  });
}

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
