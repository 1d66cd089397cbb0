// Where, and the mask of causal attention.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

template <typename T>
__global__ void Where(WhereArguments arguments) {
  const T* x = static_cast<const T*>(arguments.x);
  const T* y = static_cast<const T*>(arguments.y);
  T* out = static_cast<T*>(arguments.out);
  for (int64_t i = FirstItem(); i < arguments.loops.count; i += ItemStep()) {
    int64_t offsets[3];
    Locate(arguments.loops, static_cast<uint32_t>(i), offsets);
    out[i] = arguments.condition[offsets[0]] != 0 ? x[offsets[1]] : y[offsets[2]];
  }
}

__device__ inline bool IsVisible(const CausalMaskArguments& arguments, int64_t index) {
  switch (arguments.mask_type) {
    case ElementType::kInt64:
      return static_cast<const int64_t*>(arguments.mask)[index] != 0;
    case ElementType::kInt32:
      return static_cast<const int32_t*>(arguments.mask)[index] != 0;
    default:
      return static_cast<const uint8_t*>(arguments.mask)[index] != 0;
  }
}

__global__ void CausalMask(CausalMaskArguments arguments) {
  const int64_t count = arguments.batch * arguments.sequence * arguments.keys;
  for (int64_t i = FirstItem(); i < count; i += ItemStep()) {
    const int64_t key = i % arguments.keys;
    const int64_t row = i / arguments.keys;
    const int64_t position = arguments.keys - arguments.sequence + row % arguments.sequence;
    const bool in_window = arguments.window <= 0 || key > position - arguments.window;
    const int64_t batch = row / arguments.sequence;
    const bool seen = key <= position && in_window && IsVisible(arguments, batch * arguments.keys + key);
    arguments.out[i] = seen ? 0.0f : arguments.masked;
  }
}

}  // namespace

int LaunchWhere(const LaunchTarget& target, const WhereArguments& arguments) {
  const dim3 grid = GridFor(target, arguments.loops.count);
  return LaunchByWidth(arguments.element_bytes, [&](auto element) {
    return Launch(target, Where<decltype(element)>, grid, kElementThreads, 0, arguments);
  });
}

int LaunchCausalMask(const LaunchTarget& target, const CausalMaskArguments& arguments) {
  const int64_t count = arguments.batch * arguments.sequence * arguments.keys;
  return Launch(target, CausalMask, GridFor(target, count), kElementThreads, 0, arguments);
}

}  // namespace lamina::cuda
