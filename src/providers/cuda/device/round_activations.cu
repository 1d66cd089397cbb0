// Activations rounded to 8 bits in blocks, as products with accuracy_level 4 take them. The results are the
// activations' own type again, so that such products are computed as all others.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

// A warp for each block.
template <typename T>
__global__ void RoundActivations(RoundActivationsArguments arguments) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t blocks = CeilDiv(arguments.k, arguments.block_size);
  for (int64_t item = FirstItem() / kWarp; item < arguments.rows * blocks; item += ItemStep() / kWarp) {
    const int64_t begin = item % blocks * arguments.block_size;
    const int64_t end =
        begin + arguments.block_size < arguments.k ? begin + arguments.block_size : arguments.k;
    const T* x = static_cast<const T*>(arguments.x) + item / blocks * arguments.k;
    T* y = static_cast<T*>(arguments.y) + item / blocks * arguments.k;
    float largest = 0;
    for (int64_t i = begin + lane; i < end; i += kWarp) largest = fmaxf(largest, fabsf(ToFloat(x[i])));
    const float scale = WarpMax(largest) / 127.0f;
    // A block below the smallest normal scale counts as zeros: its inverse would be infinite.
    const float inverse = scale >= 1.17549435e-38f ? 1.0f / scale : 0.0f;
    for (int64_t i = begin + lane; i < end; i += kWarp) {
      const float quant = fmaxf(-127.0f, fminf(127.0f, nearbyintf(ToFloat(x[i]) * inverse)));
      y[i] = FromFloat<T>(quant * scale);
    }
  }
}

}  // namespace

int LaunchRoundActivations(const LaunchTarget& target, const RoundActivationsArguments& arguments) {
  const int64_t blocks = CeilDiv(arguments.k, arguments.block_size);
  const dim3 grid = GridFor(target, arguments.rows * blocks * kWarp);
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Launch(target, RoundActivations<T>, grid, kElementThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
