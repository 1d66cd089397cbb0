// Products of float16 with weights of 4 bits in tiles (four_bits.cuh) for a few rows.
//
// A block takes 16 rows of the matrix and up to 8 rows of x; its warps share k, a tile each in turn. The
// matrix units do the products, 7 of 8 of their columns for nothing where x has one row: what counts is that
// a weight takes less than two instructions.
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

// What a lane has of x for a tile: 8 elements of each half.
template <Inputs kInputs>
__device__ inline void LoadTileInputs(const __half* x, int tile, int64_t k, uint4 (&inputs)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    inputs[half] =
        LoadInputs<kInputs>(x, tile * static_cast<int>(kFourBitsTileK) + half * 32 + lane % 4 * 8, k);
  }
}

// sums (those of MultiplyFragments) += what the tile gives for the rows of x.
template <int kBlocks, bool kZeros>
__device__ inline void MultiplyTile(const TileOfLane<kBlocks, kZeros>& of_lane, const uint4 (&inputs)[2],
                                    float (&sums)[4]) {
  const uint32_t words[4] = {of_lane.weights.x, of_lane.weights.y, of_lane.weights.z, of_lane.weights.w};
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

// A warp's sums of a row tile. kUsed: columns that are wanted.
template <int kUsed>
__device__ inline void KeepSums(const float (&sums)[4], float (&partial)[kFourBitsTileRows][kUsed]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = lane / 4;
  const int first_column = lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (first_column + i >= kUsed) continue;
    partial[row][first_column + i] = sums[i];
    partial[row + 8][first_column + i] = sums[2 + i];
  }
}

// Adds up what warps have, in their order, and stores element (m, n) of the result where it is one.
template <int kWarps, typename SumOf>
__device__ inline void StoreSum(const FourBitsProductArguments& arguments, int64_t n, int64_t m,
                                SumOf sum_of) {
  if (n >= arguments.n || m >= arguments.m) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += sum_of(w);
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
      uint4 inputs[2] = {};
      if (has_column) LoadTileInputs<kInputs>(x, tile, arguments.k, inputs);
      MultiplyTile(loaded[ahead], inputs, sums);
    }
    load(base + kTilesAhead * kWarps);
  }

  KeepSums(sums, partial[warp]);
  __syncthreads();
  const int own_row = thread % kFourBitsTileRows;
  const int own_column = thread / kFourBitsTileRows;
  if (own_column >= kColumns) return;
  StoreSum<kWarps>(arguments, int64_t{blockIdx.x} * kFourBitsTileRows + own_row, first_row + own_column,
                   [&](int w) { return partial[w][own_row][own_column]; });
}

// ---- The same with the copy engine
//
// A block stays on its multiprocessor for the whole product and goes through row tiles; each of its warps has
// a ring of stages, which is full of weights before the kernel before has ended and is filled again as it is
// read, also across row tiles. Warps meet only when the sums of several row tiles are added up.

constexpr int kStreamWarps = 8;
constexpr int kTilesOfStage = 4;
constexpr int kMinStages = 3;
constexpr int kMaxStages = 9;

// The one row of x in shared memory, and the sum of each 32 elements, a block of weights or half of one or
// less.
struct InputsOfOne {
  const __half* x;    // [k]
  const float* sums;  // [k / 32]

  static int64_t Bytes(int64_t k) { return k * 2 + k / 32 * 4; }

  // By all threads of the block, `threads` of them; then a barrier.
  __device__ static InputsOfOne Stage(const __half* x, int k, int threads, void* shared) {
    auto* const staged = static_cast<uint4*>(shared);
    auto* const sums = reinterpret_cast<float*>(staged + k / 8);
    for (int first = 0; first < k / 8; first += threads) {
      const int i = first + static_cast<int>(threadIdx.x);
      uint4 values = {};
      if (i < k / 8) staged[i] = values = reinterpret_cast<const uint4*>(x)[i];
      const auto& elements = reinterpret_cast<const Pack<__half, 8>&>(values);
      float sum = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += ToFloat(elements.values[j]);
      sum += __shfl_xor_sync(kFullMask, sum, 1);
      sum += __shfl_xor_sync(kFullMask, sum, 2);
      if (i % 4 == 0 && i < k / 8) sums[i / 4] = sum;
    }
    return {reinterpret_cast<const __half*>(staged), sums};
  }
};

// sums += what the tile gives for the one row of x, which all columns have: sums[0] for row g, sums[2] for
// row g + 8, 16 times as much. Weights stay as they are below an exponent, q as 1024 + q and in the upper
// position as 1024 + 16 q; what that adds is taken off beforehand, from the sum of x. The products are exact,
// and a sum loses 7 of its 24 bits.
template <int kBlocks, bool kZeros>
__device__ inline void MultiplyTileByOne(const TileOfLane<kBlocks, kZeros>& of_lane,
                                         const InputsOfOne& inputs, int tile, float (&sums)[4]) {
  constexpr uint32_t kLow = 0x000f000fu;
  constexpr uint32_t kHigh = 0x00f000f0u;
  constexpr uint32_t kExponent = 0x64006400u;  // 1024 in both halves
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t words[4] = {of_lane.weights.x, of_lane.weights.y, of_lane.weights.z, of_lane.weights.w};
  const auto* const x =
      reinterpret_cast<const uint4*>(inputs.x + tile * static_cast<int>(kFourBitsTileK) + lane % 4 * 8);
  const Pack<float, 2> totals = LoadPack<2>(inputs.sums + tile * 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 elements = x[half * 4];
    const float total = totals.values[half];
    const float of_g = -(1024.0f + of_lane.Zero(half, 0)) * total;
    const float of_g8 = -(1024.0f + 16.0f * of_lane.Zero(half, 1)) * total;
    float products[4] = {of_g, of_g, of_g8, of_g8};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint32_t word = words[half * 2 + step];
      const uint32_t upper = word >> 8;
      const uint32_t a[4] = {(word & kLow) | kExponent, (word & kHigh) | kExponent,
                             (upper & kLow) | kExponent, (upper & kHigh) | kExponent};
      MultiplyFragments<__half>(products, a,
                                {step == 0 ? elements.x : elements.z, step == 0 ? elements.y : elements.w});
    }
    sums[0] += of_lane.Scale(half, 0) * products[0];
    sums[2] += of_lane.Scale(half, 1) * products[2];
  }
}

// kUsed: rows of x. Dynamic shared memory: [kStreamWarps][stages][kTilesOfStage] tiles, then where kUsed is 1
// x [k].
template <int kBlocks, bool kZeros, int kUsed>
__global__ void __launch_bounds__(kStreamWarps* kWarp, 3)
    StreamedProduct(FourBitsProductArguments arguments, int row_tiles, int stages) {
  using Tile = TileOfLane<kBlocks, kZeros>;
  constexpr int kStageBytes = kTilesOfStage * Tile::kBytes;
  constexpr int kHeldTiles = 16 / kUsed;  // row tiles whose sums are kept
  constexpr int kRowsOfTile = static_cast<int>(kFourBitsTileRows);
  __shared__ float partial[kHeldTiles][kStreamWarps][kRowsOfTile][kUsed];
  __shared__ CopyBarrier barriers[kStreamWarps][kMaxStages];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int tiles = static_cast<int>(arguments.k / kFourBitsTileK);
  const int tiles_of_warp = CeilDiv(tiles, kStreamWarps);
  const int begin = warp * tiles_of_warp;
  const int end = begin + tiles_of_warp < tiles ? begin + tiles_of_warp : tiles;
  uint8_t* const ring = DynamicShared<uint8_t>() + warp * stages * kStageBytes;

  // What is copied next: tiles from copy_tile on of a row tile.
  int copy_row = begin < end ? static_cast<int>(blockIdx.x) : row_tiles;
  int copy_tile = begin;
  const auto start = [&](int stage) {
    if (copy_row >= row_tiles) return;
    const int count = end - copy_tile < kTilesOfStage ? end - copy_tile : kTilesOfStage;
    if (lane == 0) {
      const uint8_t* source = static_cast<const uint8_t*>(arguments.packed) +
                              (int64_t{copy_row} * tiles + copy_tile) * Tile::kBytes;
      barriers[warp][stage].Copy(ring + stage * kStageBytes, source,
                                 static_cast<uint32_t>(count * Tile::kBytes));
    }
    copy_tile += count;
    if (copy_tile < end) return;
    copy_tile = begin;
    copy_row += static_cast<int>(gridDim.x);
  };
  if (lane == 0) {
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) barriers[warp][stage].Init();
  }
  __syncwarp();
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) start(stage);  // weights depend on no kernel before
  AllowNext();
  AwaitPrevious();

  const int64_t first_row = int64_t{blockIdx.y} * kColumns;
  const int column = lane / 4;
  const bool has_column = column < kUsed && first_row + column < arguments.m;
  const __half* x = static_cast<const __half*>(arguments.x) + (first_row + column) * arguments.k;
  InputsOfOne one = {};
  if constexpr (kUsed == 1) {
    one = InputsOfOne::Stage(static_cast<const __half*>(arguments.x) + first_row * arguments.k,
                             static_cast<int>(arguments.k), kStreamWarps * kWarp,
                             DynamicShared<uint8_t>() + kStreamWarps * stages * kStageBytes);
    __syncthreads();
  }
  RingTurn turn;
  const int step = static_cast<int>(gridDim.x);
  for (int first_tile = static_cast<int>(blockIdx.x); first_tile < row_tiles;
       first_tile += kHeldTiles * step) {
    const int left = CeilDiv(row_tiles - first_tile, step);
    const int held = left < kHeldTiles ? left : kHeldTiles;
    for (int i = 0; i < held; ++i) {
      float sums[4] = {};
      for (int first = begin; first < end; first += kTilesOfStage) {
        barriers[warp][turn.stage].Wait(turn.parity);
        const uint8_t* stage = ring + turn.stage * kStageBytes;
#pragma unroll
        for (int j = 0; j < kTilesOfStage; ++j) {
          if (first + j >= end) continue;
          Tile of_lane;
          of_lane.LoadShared(stage + j * Tile::kBytes, lane);
          if constexpr (kUsed == 1) {
            MultiplyTileByOne(of_lane, one, first + j, sums);
          } else {
            uint4 inputs[2] = {};
            if (has_column) LoadTileInputs<Inputs::kExact>(x, first + j, arguments.k, inputs);
            MultiplyTile(of_lane, inputs, sums);
          }
        }
        __syncwarp();  // all lanes have read the stage
        start(turn.stage);
        turn.Next(stages);
      }
      if constexpr (kUsed == 1) sums[2] *= 1.0f / 16.0f;
      KeepSums(sums, partial[i][warp]);
    }
    __syncthreads();
    for (int i = thread; i < held * kRowsOfTile * kUsed; i += kStreamWarps * kWarp) {
      const int row = i / kUsed % kRowsOfTile;
      const int tile = i / (kUsed * kRowsOfTile);
      StoreSum<kStreamWarps>(arguments, int64_t{first_tile + tile * step} * kRowsOfTile + row,
                             first_row + i % kUsed, [&](int w) { return partial[tile][w][row][i % kUsed]; });
    }
    __syncthreads();
  }
}

template <int kBlocks, bool kZeros>
int LaunchStreamed(const LaunchTarget& target, int64_t row_tiles, const FourBitsProductArguments& arguments) {
  constexpr int64_t kStageBytes = int64_t{kStreamWarps} * kTilesOfStage * TileOfLane<kBlocks, kZeros>::kBytes;
  const int64_t input_bytes = arguments.m == 1 ? InputsOfOne::Bytes(arguments.k) : 0;
  const int64_t stages = (kStreamedBytes - input_bytes) / kStageBytes;
  if (stages < kMinStages) return kErrorNotSupported;
  const int64_t used_stages = stages < kMaxStages ? stages : kMaxStages;
  const int64_t blocks = row_tiles < target.multiprocessors ? row_tiles : target.multiprocessors;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kColumns)));
  const int64_t needed_bytes = used_stages * kStageBytes + input_bytes;
  const auto shared_bytes =
      static_cast<size_t>(needed_bytes < kStreamedMinBytes ? kStreamedMinBytes : needed_bytes);
  const auto launch = [&](auto kernel) {
    return LaunchOverlapped(target, kernel, grid, kStreamWarps * kWarp, shared_bytes, arguments,
                            static_cast<int>(row_tiles), static_cast<int>(used_stages));
  };
  if (arguments.m == 1) return launch(StreamedProduct<kBlocks, kZeros, 1>);
  return launch(StreamedProduct<kBlocks, kZeros, kColumns>);
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
    if (exact && HasCopyEngine(target)) {
      const int error = LaunchStreamed<kBlocks, kZeros>(target, row_tiles, arguments);
      if (error != kErrorNotSupported) return error;
    }
    if (exact && few) {
      return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kExact, 16>, grid, 16 * kWarp, 0,
                              arguments);
    }
    if (whole) {
      return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kWhole, 8>, grid, 8 * kWarp, 0,
                              arguments);
    }
    return LaunchOverlapped(target, TiledProduct<kBlocks, kZeros, Inputs::kAny, 8>, grid, 8 * kWarp, 0,
                            arguments);
  });
}

}  // namespace lamina::cuda
