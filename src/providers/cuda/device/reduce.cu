// Reductions over any axes: a warp for each result. Sums are fp32 (integers: 64 bits) and their order depends
// on the sizes alone.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

template <typename C>
struct Limits;
template <>
struct Limits<float> {
  __device__ static float Lowest() { return -INFINITY; }
  __device__ static float Highest() { return INFINITY; }
};
template <>
struct Limits<int64_t> {
  __device__ static int64_t Lowest() { return INT64_MIN; }
  __device__ static int64_t Highest() { return INT64_MAX; }
};

template <typename C>
__device__ inline C Neutral(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return Limits<C>::Lowest();
    case ReduceOp::kMin:
      return Limits<C>::Highest();
    case ReduceOp::kProduct:
      return C(1);
    default:
      return C(0);
  }
}

template <typename C>
__device__ inline C Combine(ReduceOp op, C a, C b) {
  switch (op) {
    case ReduceOp::kMax:
      return (a > b) || (a != a) ? a : b;
    case ReduceOp::kMin:
      return (a < b) || (a != a) ? a : b;
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

__device__ inline float LoadAs(float, float value) { return value; }
__device__ inline float LoadAs(float, __half value) { return ToFloat(value); }
__device__ inline float LoadAs(float, __nv_bfloat16 value) { return ToFloat(value); }
__device__ inline int64_t LoadAs(int64_t, int32_t value) { return value; }
__device__ inline int64_t LoadAs(int64_t, int64_t value) { return value; }

template <typename T>
__device__ inline T Finish(ReduceOp op, float value, uint32_t count) {
  if (op == ReduceOp::kMean) value /= static_cast<float>(count);
  if (op == ReduceOp::kL2) value = sqrtf(value);
  return FromFloat<T>(value);
}
template <typename T>
__device__ inline T Finish(ReduceOp op, int64_t value, uint32_t count) {
  if (op == ReduceOp::kMean && count > 0) value /= static_cast<int64_t>(count);
  if (op == ReduceOp::kL2) value = static_cast<int64_t>(sqrt(static_cast<double>(value)));
  return static_cast<T>(value);
}

template <typename T, typename C>
__global__ void Reduce(ReduceArguments arguments) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t warps = ItemStep() / kWarp;
  const bool squares = arguments.op == ReduceOp::kSumSquare || arguments.op == ReduceOp::kL2;
  for (int64_t i = FirstItem() / kWarp; i < arguments.kept.count; i += warps) {
    int64_t kept[1];
    Locate(arguments.kept, static_cast<uint32_t>(i), kept);
    const T* x = static_cast<const T*>(arguments.x) + kept[0];
    C result = Neutral<C>(arguments.op);
    for (uint32_t j = static_cast<uint32_t>(lane); j < arguments.reduced.count; j += kWarp) {
      int64_t reduced[1];
      Locate(arguments.reduced, j, reduced);
      C value = LoadAs(C(0), x[reduced[0]]);
      if (squares) value *= value;
      result = Combine(arguments.op, result, value);
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      result = Combine(arguments.op, result, __shfl_xor_sync(kFullMask, result, offset));
    }
    if (lane == 0) {
      static_cast<T*>(arguments.y)[i] = Finish<T>(arguments.op, result, arguments.reduced.count);
    }
  }
}

}  // namespace

int LaunchReduce(const LaunchTarget& target, const ReduceArguments& arguments) {
  const dim3 grid = GridFor(target, int64_t{arguments.kept.count} * kWarp);
  switch (arguments.type) {
    case ElementType::kInt32:
      return Launch(target, Reduce<int32_t, int64_t>, grid, kElementThreads, 0, arguments);
    case ElementType::kInt64:
      return Launch(target, Reduce<int64_t, int64_t>, grid, kElementThreads, 0, arguments);
    default:
      return DispatchFloat(arguments.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return Launch(target, Reduce<T, float>, grid, kElementThreads, 0, arguments);
      });
  }
}

}  // namespace lamina::cuda
