// Functions of two elements, broadcast together. Where both lie one after the other (or one is a single
// element) the loops have one level and no division is needed.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

// The type that is computed in.
template <typename T>
struct Computed {
  using type = float;
  __device__ static float From(T value) { return ToFloat(value); }
  __device__ static T To(float value) { return FromFloat<T>(value); }
};
template <>
struct Computed<int32_t> {
  using type = int32_t;
  __device__ static int32_t From(int32_t value) { return value; }
  __device__ static int32_t To(int32_t value) { return value; }
};
template <>
struct Computed<int64_t> {
  using type = int64_t;
  __device__ static int64_t From(int64_t value) { return value; }
  __device__ static int64_t To(int64_t value) { return value; }
};

__device__ inline float Arithmetic(BinaryOp op, float a, float b, float alpha) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kPow:
      return powf(a, b);
    case BinaryOp::kMax:  // NaN wins
      return (a > b) || (a != a) ? a : b;
    case BinaryOp::kMin:
      return (a < b) || (a != a) ? a : b;
    default:
      return a / (1.0f + expf(-alpha * a)) * b;
  }
}

__device__ inline int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0);
  uint64_t result = 1;
  for (auto factor = static_cast<uint64_t>(base); exponent > 0; exponent /= 2, factor *= factor) {
    if (exponent % 2 != 0) result *= factor;
  }
  return static_cast<int64_t>(result);
}

// Wraps around; a division by zero gives 0.
template <typename T>
__device__ inline T IntegerArithmetic(BinaryOp op, T a, T b) {
  const auto wide_a = static_cast<uint64_t>(static_cast<int64_t>(a));
  const auto wide_b = static_cast<uint64_t>(static_cast<int64_t>(b));
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<T>(wide_a + wide_b);
    case BinaryOp::kSub:
      return static_cast<T>(wide_a - wide_b);
    case BinaryOp::kMul:
      return static_cast<T>(wide_a * wide_b);
    case BinaryOp::kDiv:
      if (b == 0) return 0;
      return b == -1 ? static_cast<T>(uint64_t{0} - wide_a) : a / b;
    case BinaryOp::kPow:
      return static_cast<T>(IntegerPower(a, b));
    case BinaryOp::kMax:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}
__device__ inline int32_t Arithmetic(BinaryOp op, int32_t a, int32_t b, float) {
  return IntegerArithmetic(op, a, b);
}
__device__ inline int64_t Arithmetic(BinaryOp op, int64_t a, int64_t b, float) {
  return IntegerArithmetic(op, a, b);
}

template <typename C>
__device__ inline bool Holds(BinaryOp op, C a, C b) {
  switch (op) {
    case BinaryOp::kEqual:
      return a == b;
    case BinaryOp::kLess:
      return a < b;
    case BinaryOp::kLessOrEqual:
      return a <= b;
    case BinaryOp::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterOrEqual; }

template <typename T, bool kCompares>
__global__ void Binary(BinaryArguments arguments) {
  AllowNext();
  AwaitPrevious();
  const T* a = static_cast<const T*>(arguments.a);
  const T* b = static_cast<const T*>(arguments.b);
  for (int64_t i = FirstItem(); i < arguments.loops.count; i += ItemStep()) {
    int64_t offsets[2];
    Locate(arguments.loops, static_cast<uint32_t>(i), offsets);
    const auto x = Computed<T>::From(a[offsets[0]]);
    const auto y = Computed<T>::From(b[offsets[1]]);
    if constexpr (kCompares) {
      static_cast<uint8_t*>(arguments.y)[i] = Holds(arguments.op, x, y);
    } else {
      static_cast<T*>(arguments.y)[i] = Computed<T>::To(Arithmetic(arguments.op, x, y, arguments.alpha));
    }
  }
}

__global__ void BoolBinary(BinaryArguments arguments) {
  const uint8_t* a = static_cast<const uint8_t*>(arguments.a);
  const uint8_t* b = static_cast<const uint8_t*>(arguments.b);
  for (int64_t i = FirstItem(); i < arguments.loops.count; i += ItemStep()) {
    int64_t offsets[2];
    Locate(arguments.loops, static_cast<uint32_t>(i), offsets);
    const bool x = a[offsets[0]] != 0;
    const bool y = b[offsets[1]] != 0;
    bool result = x && y;
    if (arguments.op == BinaryOp::kOr) result = x || y;
    if (arguments.op == BinaryOp::kXor) result = x != y;
    if (arguments.op == BinaryOp::kEqual) result = x == y;
    static_cast<uint8_t*>(arguments.y)[i] = result;
  }
}

template <typename T>
int LaunchTyped(const LaunchTarget& target, const dim3& grid, const BinaryArguments& arguments) {
  if (IsComparison(arguments.op))
    return LaunchOverlapped(target, Binary<T, true>, grid, kElementThreads, 0, arguments);
  return LaunchOverlapped(target, Binary<T, false>, grid, kElementThreads, 0, arguments);
}

}  // namespace

int LaunchBinary(const LaunchTarget& target, const BinaryArguments& arguments) {
  const dim3 grid = GridFor(target, arguments.loops.count);
  switch (arguments.type) {
    case ElementType::kInt32:
      return LaunchTyped<int32_t>(target, grid, arguments);
    case ElementType::kInt64:
      return LaunchTyped<int64_t>(target, grid, arguments);
    case ElementType::kBool:
      return Launch(target, BoolBinary, grid, kElementThreads, 0, arguments);
    default:
      return DispatchFloat(arguments.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return LaunchTyped<T>(target, grid, arguments);
      });
  }
}

}  // namespace lamina::cuda
