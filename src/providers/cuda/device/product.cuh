// The parts of LaunchProduct.
#pragma once

#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {

// Few rows; see product_vector.cu.
int LaunchVectorProduct(const LaunchTarget& target, const ProductArguments& arguments);
// The same by the copy engine; kErrorNotSupported where there is none or x does not fit into shared memory:
// nothing was launched then. See product_stream.cu.
int LaunchStreamedProduct(const LaunchTarget& target, const ProductArguments& arguments);
// Many rows by the matrix units; float16 and bfloat16. See product_tiles.cu.
int LaunchTileProduct(const LaunchTarget& target, const ProductArguments& arguments);
// The same by the vendor's library, with the workspace of the arguments. Nothing is launched and `done` is
// false where there is no library or it has no way to compute this. See product_library.cu.
int LaunchLibraryProduct(const LaunchTarget& target, const ProductArguments& arguments, bool* done);

// Element (i, j) of the result from its sum.
template <typename T>
__device__ inline void StoreProduct(const ProductArguments& arguments, int64_t i, int64_t j, float sum) {
  float value = arguments.alpha * sum;
  if (arguments.c) {
    const T* c = static_cast<const T*>(arguments.c);
    value += arguments.beta * ToFloat(c[i * arguments.c_row_stride + j * arguments.c_column_stride]);
  }
  static_cast<T*>(arguments.y)[i * arguments.y_stride + j] = FromFloat<T>(value);
}

// Warps that share rows of a matrix, a power of two up to `warps` (a block's): as few as give two blocks for
// each multiprocessor, and no more than there are `steps` of k.
inline int VectorSplits(const LaunchTarget& target, int64_t n, int rows, int warps, int64_t steps) {
  int splits = 1;
  while (splits < warps && splits * 2 <= steps &&
         CeilDiv<int64_t>(n, int64_t{warps / splits} * rows) < 2 * int64_t{target.multiprocessors}) {
    splits *= 2;
  }
  return splits;
}

}  // namespace lamina::cuda
