// Functions of one element. One kernel for each type: which function, is the same for all threads, so that a
// branch on it costs next to nothing beside the memory that is read and written.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

__device__ inline float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float Softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

__device__ inline float Apply(UnaryOp op, float x, float alpha, float beta) {
  switch (op) {
    case UnaryOp::kAbs:
      return fabsf(x);
    case UnaryOp::kNeg:
      return -x;
    case UnaryOp::kSign:
      return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x);
    case UnaryOp::kCeil:
      return ceilf(x);
    case UnaryOp::kFloor:
      return floorf(x);
    case UnaryOp::kRound:
      return nearbyintf(x);
    case UnaryOp::kReciprocal:
      return 1.0f / x;
    case UnaryOp::kSqrt:
      return sqrtf(x);
    case UnaryOp::kExp:
      return expf(x);
    case UnaryOp::kLog:
      return logf(x);
    case UnaryOp::kSin:
      return sinf(x);
    case UnaryOp::kCos:
      return cosf(x);
    case UnaryOp::kTanh:
      return tanhf(x);
    case UnaryOp::kErf:
      return erff(x);
    case UnaryOp::kRelu:
      return x < 0.0f ? 0.0f : x;
    case UnaryOp::kLeakyRelu:
      return x < 0.0f ? alpha * x : x;
    case UnaryOp::kElu:
      return x < 0.0f ? alpha * expm1f(x) : x;
    case UnaryOp::kSigmoid:
      return Sigmoid(x);
    case UnaryOp::kHardSigmoid:
      return fmaxf(0.0f, fminf(1.0f, alpha * x + beta));
    case UnaryOp::kHardSwish:
      return x * fmaxf(0.0f, fminf(1.0f, x / 6.0f + 0.5f));
    case UnaryOp::kSoftplus:
      return Softplus(x);
    case UnaryOp::kSwish:
      return x * Sigmoid(alpha * x);
    case UnaryOp::kGeluErf:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case UnaryOp::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    default:
      return x;
  }
}

template <typename T>
__global__ void FloatUnary(UnaryArguments arguments) {
  const T* x = static_cast<const T*>(arguments.x);
  T* y = static_cast<T*>(arguments.y);
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) {
    y[i] = FromFloat<T>(Apply(arguments.op, ToFloat(x[i]), arguments.alpha, arguments.beta));
  }
}

// Unsigned arithmetic, so that the smallest number wraps to itself.
template <typename T, typename Unsigned>
__global__ void IntegerUnary(UnaryArguments arguments) {
  const T* x = static_cast<const T*>(arguments.x);
  T* y = static_cast<T*>(arguments.y);
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) {
    const T value = x[i];
    const T negated = static_cast<T>(Unsigned{0} - static_cast<Unsigned>(value));
    if (arguments.op == UnaryOp::kNeg) {
      y[i] = negated;
    } else if (arguments.op == UnaryOp::kAbs) {
      y[i] = value < 0 ? negated : value;
    } else {
      y[i] = static_cast<T>((value > 0) - (value < 0));
    }
  }
}

__global__ void BoolNot(UnaryArguments arguments) {
  const uint8_t* x = static_cast<const uint8_t*>(arguments.x);
  uint8_t* y = static_cast<uint8_t*>(arguments.y);
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) y[i] = x[i] == 0;
}

}  // namespace

int LaunchUnary(const LaunchTarget& target, const UnaryArguments& arguments) {
  const dim3 grid = GridFor(target, arguments.count);
  switch (arguments.type) {
    case ElementType::kInt32:
      return Launch(target, IntegerUnary<int32_t, uint32_t>, grid, kElementThreads, 0, arguments);
    case ElementType::kInt64:
      return Launch(target, IntegerUnary<int64_t, uint64_t>, grid, kElementThreads, 0, arguments);
    case ElementType::kBool:
      return Launch(target, BoolNot, grid, kElementThreads, 0, arguments);
    default:
      return DispatchFloat(arguments.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return Launch(target, FloatUnary<T>, grid, kElementThreads, 0, arguments);
      });
  }
}

}  // namespace lamina::cuda
