// Scales and zero points of quantised tensors: one for the tensor, one for each index of an axis, or one for
// each block along an axis.
#pragma once

#include <cstdint>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {

// Range of an integer type up to 32 bits.
struct IntegerRange {
  int64_t low = 0;
  int64_t high = 0;
};
IntegerRange RangeOf(DataType type);

// Element of any convertible type as a float (exact for all quantised types and scales up to fp32).
inline float FloatAt(const Tensor& tensor, int64_t index) {
  float value = 0;
  ReadFloats(tensor.type(), tensor.raw_data(), index, 1, &value);
  return value;
}
// An element of an integer type of at most 32 bits.
int32_t IntAt(const Tensor& tensor, int64_t index);

// Which scale belongs to which element of a tensor.
class QuantLayout {
 public:
  // `axis` matters unless the scale is one element; `block_size` > 0: blocks along it. INVALID_ARGUMENT where
  // the scale does not fit, or the zero point (may be null) has another shape.
  static Result<QuantLayout> Make(const Shape& shape, const Tensor& scale, const Tensor* zero_point,
                                  int64_t axis, int64_t block_size);

  int64_t ScaleIndex(int64_t element) const {
    if (one_scale_) return 0;
    const int64_t along = element / inner_ % extent_;
    if (block_ == 0) return along;
    return (element / inner_ / extent_ * blocks_ + along / block_) * inner_ + element % inner_;
  }

 private:
  bool one_scale_ = true;
  int64_t extent_ = 1;  // of the axis
  int64_t inner_ = 1;   // elements after the axis
  int64_t block_ = 0;
  int64_t blocks_ = 0;
};

// round-half-even(value) + zero_point, limited to the range
inline int32_t QuantizeToInt(double value, int32_t zero_point, IntegerRange range) {
  const double rounded = std::nearbyint(value) + zero_point;
  if (!(rounded > static_cast<double>(range.low))) return static_cast<int32_t>(range.low);  // NaN too
  return rounded >= static_cast<double>(range.high) ? static_cast<int32_t>(range.high)
                                                    : static_cast<int32_t>(rounded);
}

}  // namespace lamina
