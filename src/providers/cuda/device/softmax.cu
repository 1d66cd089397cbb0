// Softmax and LogSoftmax: a block for each row; where rows lie across memory, a thread for each.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

__device__ inline float Result(float x, float max, float sum, int logarithm) {
  return logarithm != 0 ? x - max - logf(sum) : expf(x - max) / sum;
}

template <typename T>
__global__ void SoftmaxOfRows(SoftmaxArguments arguments) {
  __shared__ float partial[kWarp];
  for (int64_t row = blockIdx.x; row < arguments.outer; row += gridDim.x) {
    const T* x = static_cast<const T*>(arguments.x) + row * arguments.count;
    T* y = static_cast<T*>(arguments.y) + row * arguments.count;
    float max = -INFINITY;
    for (int64_t i = threadIdx.x; i < arguments.count; i += blockDim.x) max = fmaxf(max, ToFloat(x[i]));
    max = BlockMax(max, partial);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < arguments.count; i += blockDim.x) sum += expf(ToFloat(x[i]) - max);
    sum = BlockSum(sum, partial);
    for (int64_t i = threadIdx.x; i < arguments.count; i += blockDim.x) {
      y[i] = FromFloat<T>(Result(ToFloat(x[i]), max, sum, arguments.logarithm));
    }
  }
}

template <typename T>
__global__ void SoftmaxOfColumns(SoftmaxArguments arguments) {
  for (int64_t item = FirstItem(); item < arguments.outer * arguments.inner; item += ItemStep()) {
    const int64_t first = item / arguments.inner * arguments.count * arguments.inner + item % arguments.inner;
    const T* x = static_cast<const T*>(arguments.x) + first;
    T* y = static_cast<T*>(arguments.y) + first;
    float max = -INFINITY;
    for (int64_t i = 0; i < arguments.count; ++i) max = fmaxf(max, ToFloat(x[i * arguments.inner]));
    float sum = 0;
    for (int64_t i = 0; i < arguments.count; ++i) sum += expf(ToFloat(x[i * arguments.inner]) - max);
    for (int64_t i = 0; i < arguments.count; ++i) {
      const float value = ToFloat(x[i * arguments.inner]);
      y[i * arguments.inner] = FromFloat<T>(Result(value, max, sum, arguments.logarithm));
    }
  }
}

}  // namespace

int LaunchSoftmax(const LaunchTarget& target, const SoftmaxArguments& arguments) {
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (arguments.inner == 1) {
      const int64_t blocks = arguments.outer < 65535 ? arguments.outer : 65535;
      return Launch(target, SoftmaxOfRows<T>, dim3(static_cast<unsigned>(blocks)), kElementThreads, 0,
                    arguments);
    }
    const dim3 grid = GridFor(target, arguments.outer * arguments.inner);
    return Launch(target, SoftmaxOfColumns<T>, grid, kElementThreads, 0, arguments);
  });
}

}  // namespace lamina::cuda
