// Copies between strided layouts (Transpose, Slice, Expand, Concat, Split, ...), constants and ranges.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

struct alignas(16) Bytes16 {
  uint64_t words[2];
};

template <typename T>
__global__ void StridedCopy(StridedCopyArguments arguments) {
  const T* source = static_cast<const T*>(arguments.source);
  T* destination = static_cast<T*>(arguments.destination);
  for (int64_t i = FirstItem(); i < arguments.loops.count; i += ItemStep()) {
    int64_t offsets[2];
    Locate(arguments.loops, static_cast<uint32_t>(i), offsets);
    destination[offsets[1]] = source[offsets[0]];
  }
}

template <typename T>
__global__ void Fill(FillArguments arguments) {
  const T value = static_cast<T>(arguments.bits);
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) static_cast<T*>(arguments.y)[i] = value;
}

__global__ void Range(RangeArguments arguments) {
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) {
    const int64_t integer = arguments.integer_start + i * arguments.integer_step;
    if (arguments.type == ElementType::kInt64) {
      static_cast<int64_t*>(arguments.y)[i] = integer;
    } else if (arguments.type == ElementType::kInt32) {
      static_cast<int32_t*>(arguments.y)[i] = static_cast<int32_t>(integer);
    } else {
      const double real = arguments.start + static_cast<double>(i) * arguments.step;
      static_cast<float*>(arguments.y)[i] = static_cast<float>(real);
    }
  }
}

}  // namespace

int LaunchStridedCopy(const LaunchTarget& target, const StridedCopyArguments& arguments) {
  const dim3 grid = GridFor(target, arguments.loops.count);
  if (arguments.element_bytes == sizeof(Bytes16)) {
    return Launch(target, StridedCopy<Bytes16>, grid, kElementThreads, 0, arguments);
  }
  return LaunchByWidth(arguments.element_bytes, [&](auto element) {
    return Launch(target, StridedCopy<decltype(element)>, grid, kElementThreads, 0, arguments);
  });
}

int LaunchFill(const LaunchTarget& target, const FillArguments& arguments) {
  const dim3 grid = GridFor(target, arguments.count);
  return LaunchByWidth(arguments.element_bytes, [&](auto element) {
    return Launch(target, Fill<decltype(element)>, grid, kElementThreads, 0, arguments);
  });
}

int LaunchRange(const LaunchTarget& target, const RangeArguments& arguments) {
  return Launch(target, Range, GridFor(target, arguments.count), kElementThreads, 0, arguments);
}

}  // namespace lamina::cuda
