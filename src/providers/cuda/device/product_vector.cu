// Products of a few rows with a packed matrix [n, packed_k]: a stream of weights. A warp takes kRows rows of
// the matrix, 16 bytes a lane and several of them under way at once; where that gives too few blocks, the
// warps of a block share rows and cut k among themselves.
#include "providers/cuda/device/platform.cuh"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kRows = 2;        // of the matrix, for each warp
constexpr int kMaxInputs = 4;   // rows of x at a time
constexpr int kLoadsAhead = 4;  // packs of each row that are requested before the first is used

// x beyond k counts as zero.
template <typename T, int kWidth, bool kWhole>
__device__ inline Pack<T, kWidth> LoadInput(const T* x, int64_t first, int64_t k) {
  if constexpr (kWhole) {
    return LoadPack<kWidth>(x + first);
  } else {
    Pack<T, kWidth> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.values[i] = first + i < k ? x[first + i] : FromFloat<T>(0.0f);
    return pack;
  }
}

// Where b is older than the run, its first weights are requested before the kernel before has ended.
template <typename T, int kInputs, bool kWhole>
__global__ void __launch_bounds__(kWarps* kWarp) VectorProduct(ProductArguments arguments, int splits) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  using Weights = Pack<T, kWidth>;
  __shared__ float partial[kWarps][kRows][kInputs];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = warp / splits;
  const int split = warp % splits;
  const int64_t first_row = (int64_t{blockIdx.x} * (kWarps / splits) + group) * kRows;
  const int64_t first_input = int64_t{blockIdx.y} * kInputs;

  const T* rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {  // a row that is not there is read as the last, and not stored
    const int64_t row = first_row + r < arguments.n ? first_row + r : arguments.n - 1;
    rows[r] = static_cast<const T*>(arguments.b) + row * arguments.packed_k;
  }
  const T* inputs[kInputs];
#pragma unroll
  for (int m = 0; m < kInputs; ++m) {
    const int64_t input = first_input + m < arguments.m ? first_input + m : arguments.m - 1;
    inputs[m] = static_cast<const T*>(arguments.x) + input * arguments.x_stride;
  }

  float sums[kRows][kInputs] = {};
  const int64_t step = int64_t{splits} * kWarp * kWidth;
  int64_t base = int64_t{split * kWarp + lane} * kWidth;
  uint4 weights[kLoadsAhead][kRows] = {};
  const auto load = [&](int64_t first, uint4(&of_rows)[kRows]) {
    if (first >= arguments.packed_k) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) of_rows[r] = LoadOnce(rows[r] + first);
  };
  AllowNext();
  if (arguments.is_b_fresh != 0) AwaitPrevious();
#pragma unroll
  for (int ahead = 0; ahead < kLoadsAhead; ++ahead) load(base + ahead * step, weights[ahead]);
  AwaitPrevious();
  for (; base < arguments.packed_k; base += step * kLoadsAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kLoadsAhead; ++ahead) {
      const int64_t first = base + ahead * step;
      if (first >= arguments.packed_k) continue;
      // Their place is filled again at once.
      uint4 current[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) current[r] = weights[ahead][r];
      load(first + step * kLoadsAhead, weights[ahead]);
#pragma unroll
      for (int m = 0; m < kInputs; ++m) {
        const Weights x = LoadInput<T, kWidth, kWhole>(inputs[m], first, arguments.k);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const Weights& w = reinterpret_cast<const Weights&>(current[r]);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sums[r][m] += ToFloat(w.values[i]) * ToFloat(x.values[i]);
        }
      }
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int m = 0; m < kInputs; ++m) {
      const float sum = WarpSum(sums[r][m]);
      if (lane == 0) partial[warp][r][m] = sum;
    }
  }
  __syncthreads();
  if (split != 0 || lane >= kRows * kInputs) return;
  const int r = lane / kInputs;
  const int m = lane % kInputs;
  if (first_row + r >= arguments.n || first_input + m >= arguments.m) return;
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += partial[warp + s][r][m];
  StoreProduct<T>(arguments, first_input + m, first_row + r, sum);
}

template <typename T, int kInputs>
int LaunchInputs(const LaunchTarget& target, const ProductArguments& arguments) {
  constexpr int64_t kWidth = 16 / static_cast<int64_t>(sizeof(T));
  const int splits = VectorSplits(target, arguments.n, kRows, kWarps, arguments.packed_k / (kWarp * kWidth));
  const int64_t rows_of_block = int64_t{kWarps / splits} * kRows;
  const dim3 grid(static_cast<unsigned>(CeilDiv(arguments.n, rows_of_block)),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kInputs)));
  const bool whole =
      arguments.k == arguments.packed_k && arguments.x_stride % kWidth == 0 && IsAligned(arguments.x, 16);
  if (whole) {
    return LaunchOverlapped(target, VectorProduct<T, kInputs, true>, grid, kWarps * kWarp, 0, arguments,
                            splits);
  }
  return LaunchOverlapped(target, VectorProduct<T, kInputs, false>, grid, kWarps * kWarp, 0, arguments,
                          splits);
}

}  // namespace

int LaunchVectorProduct(const LaunchTarget& target, const ProductArguments& arguments) {
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (arguments.m == 1) return LaunchInputs<T, 1>(target, arguments);
    return LaunchInputs<T, kMaxInputs>(target, arguments);
  });
}

}  // namespace lamina::cuda
