// Products of a few rows with a packed matrix, where the copy engine of each multiprocessor brings the
// weights.
//
// A block stays on its multiprocessor for the whole product. Its warps take rows of the matrix in turn, or
// parts of rows where there are few; each has a ring of stages, which is full of weights before the kernel
// before has ended and is filled again as it is read. So weights keep coming while other kernels end and
// begin. The rows of x lie in shared memory.
#include "providers/cuda/device/platform.cuh"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kStageBytes = 2048;
constexpr int kPackBytes = 16;
constexpr int kPacksOfStage = kStageBytes / kPackBytes;
constexpr int kMinStages = 3;
constexpr int kMaxStages = 6;
constexpr int kMaxInputs = 4;

// The rows of x, with zeros up to packed_k and for rows that are not there.
template <typename T, int kInputs>
__device__ inline void StageRows(const ProductArguments& arguments, int64_t first_input, T* staged) {
  constexpr int kWidth = kPackBytes / static_cast<int>(sizeof(T));
  const int thread = static_cast<int>(threadIdx.x);
  const bool whole = arguments.k % kWidth == 0 && arguments.x_stride % kWidth == 0 &&
                     reinterpret_cast<uintptr_t>(arguments.x) % kPackBytes == 0;
  const auto packs = static_cast<int>(arguments.packed_k / kWidth);
#pragma unroll
  for (int m = 0; m < kInputs; ++m) {
    const bool is_there = first_input + m < arguments.m;
    const T* x = static_cast<const T*>(arguments.x) + (is_there ? first_input + m : 0) * arguments.x_stride;
    for (int i = thread; i < packs; i += kWarps * kWarp) {
      const int64_t first = int64_t{i} * kWidth;
      Pack<T, kWidth> pack;
      if (whole && is_there) {
        pack = LoadPack<kWidth>(x + first);
      } else {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          pack.values[j] = is_there && first + j < arguments.k ? x[first + j] : FromFloat<T>(0.0f);
        }
      }
      StorePack<kWidth>(staged + m * arguments.packed_k + first, pack);
    }
  }
}

// `splits` warps share a row. Dynamic shared memory: x [kInputs, packed_k], then [kWarps][stages] stages.
template <typename T, int kInputs>
__global__ void __launch_bounds__(kWarps* kWarp, 2)
    StreamedRows(ProductArguments arguments, int stages, int splits) {
  constexpr int kWidth = kPackBytes / static_cast<int>(sizeof(T));
  __shared__ float partial[2][kWarps][kInputs];
  __shared__ CopyBarrier barriers[kWarps][kMaxStages];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  T* const inputs = DynamicShared<T>();
  const int64_t input_bytes = kInputs * arguments.packed_k * static_cast<int64_t>(sizeof(T));
  char* const ring = DynamicShared<char>() + input_bytes + warp * stages * kStageBytes;
  const auto n = static_cast<int>(arguments.n);
  const auto packs = static_cast<int>(arguments.packed_k / kWidth);
  const int split = warp % splits;
  const int packs_of_split = CeilDiv(CeilDiv(packs, splits), kWarp) * kWarp;
  const int begin = split * packs_of_split;
  const int end = begin + packs_of_split < packs ? begin + packs_of_split : packs;
  // Neighbouring rows go to different multiprocessors, so that all have much the same number.
  const int groups = static_cast<int>(gridDim.x) * (kWarps / splits);
  const int group = warp / splits * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);

  // What is copied next: packs of a row from copy_pack on.
  int copy_row = begin < end ? group : n;
  int copy_pack = begin;
  const auto start = [&](int stage) {
    if (copy_row >= n) return;
    const int count = end - copy_pack < kPacksOfStage ? end - copy_pack : kPacksOfStage;
    if (lane == 0) {
      const char* source =
          static_cast<const char*>(arguments.b) + (int64_t{copy_row} * packs + copy_pack) * kPackBytes;
      barriers[warp][stage].Copy(ring + stage * kStageBytes, source,
                                 static_cast<uint32_t>(count * kPackBytes));
    }
    copy_pack += count;
    if (copy_pack < end) return;
    copy_pack = begin;
    copy_row += groups;
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
  const int64_t first_input = int64_t{blockIdx.y} * kInputs;
  StageRows<T, kInputs>(arguments, first_input, inputs);
  __syncthreads();

  RingTurn turn;
  int buffer = 0;
  // All warps go through the same turns: they meet where they share rows.
  for (int first_row = 0; first_row < n; first_row += groups, buffer ^= 1) {
    const int row = first_row + group;
    float sums[kInputs] = {};
    for (int first = begin; row < n && first < end; first += kPacksOfStage) {
      barriers[warp][turn.stage].Wait(turn.parity);
      const T* weights = reinterpret_cast<const T*>(ring + turn.stage * kStageBytes);
      const auto multiply = [&](int pack) {
        const Pack<T, kWidth> w = LoadPack<kWidth>(weights + pack * kWidth);
#pragma unroll
        for (int m = 0; m < kInputs; ++m) {
          const Pack<T, kWidth> x =
              LoadPack<kWidth>(inputs + m * arguments.packed_k + int64_t{first + pack} * kWidth);
#pragma unroll
          for (int j = 0; j < kWidth; ++j) sums[m] += ToFloat(w.values[j]) * ToFloat(x.values[j]);
        }
      };
      if (first + kPacksOfStage <= end) {  // without a branch for each, so that they overlap
#pragma unroll
        for (int i = 0; i < kPacksOfStage / kWarp; ++i) multiply(i * kWarp + lane);
      } else {
#pragma unroll 1
        for (int pack = lane; first + pack < end; pack += kWarp) multiply(pack);
      }
      __syncwarp();  // all lanes have read the stage
      start(turn.stage);
      turn.Next(stages);
    }
    float own_sum = 0;  // of input `lane`
#pragma unroll
    for (int m = 0; m < kInputs; ++m) {
      const float sum = WarpSum(sums[m]);
      if (lane == m) own_sum = sum;
    }
    if (splits > 1) {
      if (lane < kInputs) partial[buffer][warp][lane] = own_sum;
      __syncthreads();
      if (split == 0 && lane < kInputs) {
        own_sum = 0;
        for (int s = 0; s < splits; ++s) own_sum += partial[buffer][warp + s][lane];
      }
    }
    if (split == 0 && lane < kInputs && row < n && first_input + lane < arguments.m) {
      StoreProduct<T>(arguments, first_input + lane, row, own_sum);
    }
  }
}

// Warps that share a row: as many as leave the fewest of all warps without work at the end.
int SplitsFor(const LaunchTarget& target, int64_t n, int64_t packs) {
  const int64_t warps = int64_t{target.multiprocessors} * kWarps;
  constexpr double kWorthwhile = 0.97;
  int best = 1;
  double best_waste = 0;
  for (int splits = 1; splits <= kWarps && int64_t{splits} * kWarp <= packs; splits *= 2) {
    const auto parts = static_cast<double>(n * splits);
    const double waste = static_cast<double>(CeilDiv(n * splits, warps) * warps) / parts;
    if (splits > 1 && waste > best_waste * kWorthwhile) continue;
    best = splits;
    best_waste = waste;
  }
  return best;
}

template <typename T, int kInputs>
int LaunchInputs(const LaunchTarget& target, const ProductArguments& arguments) {
  const int64_t row_bytes = arguments.packed_k * static_cast<int64_t>(sizeof(T));
  const int64_t stages = (kStreamedBytes - kInputs * row_bytes) / (kWarps * kStageBytes);
  constexpr int64_t kMaxRows = int64_t{1} << 30;
  if (stages < kMinStages || arguments.n > kMaxRows) return kErrorNotSupported;
  const int used_stages = static_cast<int>(stages < kMaxStages ? stages : kMaxStages);
  const int splits = SplitsFor(target, arguments.n, row_bytes / kPackBytes);
  const int64_t blocks = CeilDiv<int64_t>(arguments.n * splits, kWarps);
  const dim3 grid(static_cast<unsigned>(blocks < target.multiprocessors ? blocks : target.multiprocessors),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kInputs)));
  const int64_t needed_bytes = kInputs * row_bytes + int64_t{kWarps} * used_stages * kStageBytes;
  const auto shared_bytes =
      static_cast<size_t>(needed_bytes < kStreamedMinBytes ? kStreamedMinBytes : needed_bytes);
  return LaunchOverlapped(target, StreamedRows<T, kInputs>, grid, kWarps * kWarp, shared_bytes, arguments,
                          used_stages, splits);
}

}  // namespace

int LaunchStreamedProduct(const LaunchTarget& target, const ProductArguments& arguments) {
  if (!HasCopyEngine(target) || arguments.is_b_fresh != 0 || !IsAligned(arguments.b, kPackBytes)) {
    return kErrorNotSupported;
  }
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (arguments.m == 1) return LaunchInputs<T, 1>(target, arguments);
    return LaunchInputs<T, kMaxInputs>(target, arguments);
  });
}

}  // namespace lamina::cuda
