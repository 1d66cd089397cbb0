// Which way a product is computed, products of matrices as they are, and packing.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {
namespace {

constexpr int kTile = 64;
constexpr int kTileK = 16;
constexpr int kTileThreads = 256;  // 16 x 16, of 4 x 4 results each

// A tile of matrices with any strides, through shared memory, in fp32.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) BatchedProduct(BatchedProductArguments arguments) {
  __shared__ float shared_x[kTileK][kTile + 4];
  __shared__ float shared_b[kTileK][kTile + 4];
  int64_t offsets[3];
  Locate(arguments.batch, blockIdx.z, offsets);
  const T* x = static_cast<const T*>(arguments.x) + offsets[0];
  const T* b = static_cast<const T*>(arguments.b) + offsets[1];
  T* y = static_cast<T*>(arguments.y) + offsets[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first_m = int64_t{blockIdx.y} * kTile;
  const int64_t first_n = int64_t{blockIdx.x} * kTile;
  const int own_m = thread / 16 * 4;
  const int own_n = thread % 16 * 4;

  float sums[4][4] = {};
  for (int64_t first_k = 0; first_k < arguments.k; first_k += kTileK) {
    __syncthreads();
    for (int i = thread; i < kTile * kTileK; i += kTileThreads) {
      // Neighbouring threads read neighbours in memory.
      const bool k_inside = arguments.x_column_stride == 1;
      const int m = k_inside ? i / kTileK : i % kTile;
      const int k = k_inside ? i % kTileK : i / kTile;
      const bool inside = first_m + m < arguments.m && first_k + k < arguments.k;
      shared_x[k][m] =
          inside
              ? ToFloat(x[(first_m + m) * arguments.x_row_stride + (first_k + k) * arguments.x_column_stride])
              : 0.0f;
    }
    for (int i = thread; i < kTile * kTileK; i += kTileThreads) {
      const bool n_inside = arguments.b_column_stride == 1;
      const int n = n_inside ? i % kTile : i / kTileK;
      const int k = n_inside ? i / kTile : i % kTileK;
      const bool inside = first_n + n < arguments.n && first_k + k < arguments.k;
      shared_b[k][n] =
          inside
              ? ToFloat(b[(first_k + k) * arguments.b_row_stride + (first_n + n) * arguments.b_column_stride])
              : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTileK; ++k) {
      float column[4];
      float row[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        column[i] = shared_x[k][own_m + i];
        row[i] = shared_b[k][own_n + i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += column[i] * row[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t m = first_m + own_m + i;
      const int64_t n = first_n + own_n + j;
      if (m < arguments.m && n < arguments.n) y[m * arguments.y_row_stride + n] = FromFloat<T>(sums[i][j]);
    }
  }
}

// y = alpha y + beta c, after a product that took neither.
template <typename T>
__global__ void AddTerm(ProductArguments arguments) {
  for (int64_t i = FirstItem(); i < arguments.m * arguments.n; i += ItemStep()) {
    const int64_t row = i / arguments.n;
    const int64_t column = i % arguments.n;
    const T sum = static_cast<const T*>(arguments.y)[row * arguments.y_stride + column];
    StoreProduct<T>(arguments, row, column, ToFloat(sum));
  }
}

// Squares of 32 x 32 through shared memory, so that reads and writes are both of neighbours.
template <typename T>
__global__ void PackProduct(PackProductArguments arguments) {
  __shared__ T square[kWarp][kWarp + 1];
  const T* b = static_cast<const T*>(arguments.b);
  T* packed = static_cast<T*>(arguments.packed);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int64_t first_k = int64_t{blockIdx.x} * kWarp;
  for (int64_t first_n = int64_t{blockIdx.y} * kWarp; first_n < arguments.n;
       first_n += int64_t{gridDim.y} * kWarp) {
    __syncthreads();
    for (int row = warp; row < kWarp; row += warps) {
      const int64_t k = first_k + (arguments.transposed != 0 ? lane : row);
      const int64_t n = first_n + (arguments.transposed != 0 ? row : lane);
      T value{};
      if (k < arguments.k && n < arguments.n) {
        value = arguments.transposed != 0 ? b[n * arguments.k + k] : b[k * arguments.n + n];
      }
      square[arguments.transposed != 0 ? row : lane][arguments.transposed != 0 ? lane : row] = value;
    }
    __syncthreads();
    for (int row = warp; row < kWarp; row += warps) {
      const int64_t n = first_n + row;
      const int64_t k = first_k + lane;
      if (n < arguments.n && k < arguments.packed_k) packed[n * arguments.packed_k + k] = square[row][lane];
    }
  }
}

}  // namespace

int LaunchBatchedProduct(const LaunchTarget& target, const BatchedProductArguments& arguments) {
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(arguments.n, kTile)),
                  static_cast<unsigned>(CeilDiv<int64_t>(arguments.m, kTile)), arguments.batch.count);
  if (grid.y > 65535 || grid.z > 65535) return kErrorNotSupported;
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, BatchedProduct<T>, grid, kTileThreads, 0, arguments);
  });
}

int LaunchProduct(const LaunchTarget& target, const ProductArguments& arguments) {
  if (arguments.m == 0 || arguments.n == 0) return 0;
  if (arguments.m <= kMaxVectorRows) {
    const int error = LaunchStreamedProduct(target, arguments);
    return error == kErrorNotSupported ? LaunchVectorProduct(target, arguments) : error;
  }
  if (arguments.workspace) {
    bool done = false;
    const int error = LaunchLibraryProduct(target, arguments, &done);
    if (error != 0 || done) return error;
  }
  constexpr int kMatrixUnits = 80;  // the compute capability whose instructions the tiles use
  if (arguments.type != ElementType::kFloat && target.compute_capability >= kMatrixUnits) {
    return LaunchTileProduct(target, arguments);
  }
  BatchedProductArguments tiles = {};
  tiles.type = arguments.type;
  tiles.x = arguments.x;
  tiles.b = arguments.b;
  tiles.y = arguments.y;
  tiles.m = arguments.m;
  tiles.n = arguments.n;
  tiles.k = arguments.k;
  tiles.x_row_stride = arguments.x_stride;
  tiles.x_column_stride = 1;
  tiles.b_row_stride = 1;
  tiles.b_column_stride = arguments.packed_k;
  tiles.y_row_stride = arguments.y_stride;
  const int error = LaunchBatchedProduct(target, tiles);
  if (error != 0 || (!arguments.c && arguments.alpha == 1.0f)) return error;
  const dim3 grid = GridFor(target, arguments.m * arguments.n);
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, AddTerm<T>, grid, kElementThreads, 0, arguments);
  });
}

int LaunchPackProduct(const LaunchTarget& target, const PackProductArguments& arguments) {
  const int64_t squares_n = CeilDiv<int64_t>(arguments.n, kWarp);
  const dim3 grid(static_cast<unsigned>(CeilDiv<int64_t>(arguments.packed_k, kWarp)),
                  static_cast<unsigned>(squares_n < 65535 ? squares_n : 65535));
  switch (arguments.element_bytes) {
    case 2:
      return Launch(target, PackProduct<uint16_t>, grid, kElementThreads, 0, arguments);
    case 4:
      return Launch(target, PackProduct<uint32_t>, grid, kElementThreads, 0, arguments);
    default:
      return kErrorNotSupported;
  }
}

}  // namespace lamina::cuda
