// Cast. One kernel for all pairs of types: a number passes through double or, from an integer, through int64
// or uint64, which hold it exactly.
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

// What double holds of a type's bounds; beyond them a number saturates.
template <typename T>
__device__ inline T Saturated(double value, T low, T high) {
  if (!(value < static_cast<double>(high))) return value != value ? T(0) : high;
  if (value <= static_cast<double>(low)) return low;
  return static_cast<T>(value);
}

enum class Through { kDouble, kSigned, kUnsigned };

struct Number {
  Through kind;
  double real;
  int64_t integer;  // of kUnsigned: its bits
};

__device__ inline Number Load(ElementType type, const void* x, int64_t i) {
  switch (type) {
    case ElementType::kFloat:
      return {Through::kDouble, static_cast<const float*>(x)[i], 0};
    case ElementType::kDouble:
      return {Through::kDouble, static_cast<const double*>(x)[i], 0};
    case ElementType::kFloat16:
      return {Through::kDouble, ToFloat(static_cast<const __half*>(x)[i]), 0};
    case ElementType::kBfloat16:
      return {Through::kDouble, ToFloat(static_cast<const __nv_bfloat16*>(x)[i]), 0};
    case ElementType::kInt8:
      return {Through::kSigned, 0, static_cast<const int8_t*>(x)[i]};
    case ElementType::kUint8:
    case ElementType::kBool:
      return {Through::kSigned, 0, static_cast<const uint8_t*>(x)[i]};
    case ElementType::kInt16:
      return {Through::kSigned, 0, static_cast<const int16_t*>(x)[i]};
    case ElementType::kUint16:
      return {Through::kSigned, 0, static_cast<const uint16_t*>(x)[i]};
    case ElementType::kInt32:
      return {Through::kSigned, 0, static_cast<const int32_t*>(x)[i]};
    case ElementType::kUint32:
      return {Through::kSigned, 0, static_cast<const uint32_t*>(x)[i]};
    case ElementType::kUint64:
      return {Through::kUnsigned, 0, static_cast<int64_t>(static_cast<const uint64_t*>(x)[i])};
    default:
      return {Through::kSigned, 0, static_cast<const int64_t*>(x)[i]};
  }
}

__device__ inline float AsFloat(const Number& number) {
  switch (number.kind) {
    case Through::kDouble:
      return static_cast<float>(number.real);
    case Through::kSigned:
      return static_cast<float>(number.integer);
    default:
      return static_cast<float>(static_cast<uint64_t>(number.integer));
  }
}

__device__ inline double AsDouble(const Number& number) {
  switch (number.kind) {
    case Through::kDouble:
      return number.real;
    case Through::kSigned:
      return static_cast<double>(number.integer);
    default:
      return static_cast<double>(static_cast<uint64_t>(number.integer));
  }
}

// Integers keep their low bits.
template <typename T>
__device__ inline T AsInteger(const Number& number, T low, T high) {
  return number.kind == Through::kDouble ? Saturated<T>(number.real, low, high)
                                         : static_cast<T>(number.integer);
}

__device__ inline void Store(ElementType type, void* y, int64_t i, const Number& number) {
  switch (type) {
    case ElementType::kFloat:
      static_cast<float*>(y)[i] = AsFloat(number);
      break;
    case ElementType::kDouble:
      static_cast<double*>(y)[i] = AsDouble(number);
      break;
    case ElementType::kFloat16:
      static_cast<__half*>(y)[i] = FromFloat<__half>(AsFloat(number));
      break;
    case ElementType::kBfloat16:
      static_cast<__nv_bfloat16*>(y)[i] = FromFloat<__nv_bfloat16>(AsFloat(number));
      break;
    case ElementType::kBool:
      static_cast<uint8_t*>(y)[i] = number.kind == Through::kDouble ? number.real != 0 : number.integer != 0;
      break;
    case ElementType::kInt8:
      static_cast<int8_t*>(y)[i] = AsInteger<int8_t>(number, INT8_MIN, INT8_MAX);
      break;
    case ElementType::kUint8:
      static_cast<uint8_t*>(y)[i] = AsInteger<uint8_t>(number, 0, UINT8_MAX);
      break;
    case ElementType::kInt16:
      static_cast<int16_t*>(y)[i] = AsInteger<int16_t>(number, INT16_MIN, INT16_MAX);
      break;
    case ElementType::kUint16:
      static_cast<uint16_t*>(y)[i] = AsInteger<uint16_t>(number, 0, UINT16_MAX);
      break;
    case ElementType::kInt32:
      static_cast<int32_t*>(y)[i] = AsInteger<int32_t>(number, INT32_MIN, INT32_MAX);
      break;
    case ElementType::kUint32:
      static_cast<uint32_t*>(y)[i] = AsInteger<uint32_t>(number, 0, UINT32_MAX);
      break;
    case ElementType::kUint64:
      static_cast<uint64_t*>(y)[i] = AsInteger<uint64_t>(number, 0, UINT64_MAX);
      break;
    default:
      static_cast<int64_t*>(y)[i] = AsInteger<int64_t>(number, INT64_MIN, INT64_MAX);
      break;
  }
}

__global__ void Cast(CastArguments arguments) {
  for (int64_t i = FirstItem(); i < arguments.count; i += ItemStep()) {
    Store(arguments.to, arguments.y, i, Load(arguments.from, arguments.x, i));
  }
}

}  // namespace

int LaunchCast(const LaunchTarget& target, const CastArguments& arguments) {
  return Launch(target, Cast, GridFor(target, arguments.count), kElementThreads, 0, arguments);
}

}  // namespace lamina::cuda
