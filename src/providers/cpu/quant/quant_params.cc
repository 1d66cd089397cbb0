#include "providers/cpu/quant/quant_params.h"

namespace lamina {

IntegerRange RangeOf(DataType type) {
  const int bits = DataTypeBits(type);
  const bool is_signed = kSignedIntTypes.Contains(type) || type == DataType::kInt4 || type == DataType::kInt2;
  if (is_signed) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

int32_t IntAt(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DataType::kInt8:
      return tensor.data<int8_t>()[index];
    case DataType::kUint8:
      return tensor.data<uint8_t>()[index];
    case DataType::kInt16:
      return tensor.data<int16_t>()[index];
    case DataType::kUint16:
      return tensor.data<uint16_t>()[index];
    case DataType::kInt32:
      return tensor.data<int32_t>()[index];
    default:
      return ReadPackedInt(tensor.type(), tensor.raw_data(), index);
  }
}

Result<QuantLayout> QuantLayout::Make(const Shape& shape, const Tensor& scale, const Tensor* zero_point,
                                      int64_t axis_number, int64_t block_size) {
  const auto mismatch = [&] {
    return InvalidArgumentError("a scale {} does not fit {} along axis {} in blocks of {}",
                                scale.shape().ToString(), shape.ToString(), axis_number, block_size);
  };
  QuantLayout layout;
  if (zero_point && zero_point->num_elements() != scale.num_elements()) {
    return InvalidArgumentError("the zero point {} and the scale {} differ in shape",
                                zero_point->shape().ToString(), scale.shape().ToString());
  }
  if (scale.num_elements() == 1 && scale.shape().rank() <= 1 && block_size == 0) return layout;
  LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_number, shape.rank()));
  layout.one_scale_ = false;
  layout.extent_ = shape[axis];
  layout.inner_ = shape.num_elements(axis + 1, shape.rank());
  if (block_size == 0) {
    if (scale.num_elements() != layout.extent_) return mismatch();
    return layout;
  }
  if (block_size < 0) return mismatch();
  layout.block_ = block_size;
  layout.blocks_ = (layout.extent_ + block_size - 1) / block_size;
  Shape expected = shape;
  expected[axis] = layout.blocks_;
  if (!(scale.shape() == expected)) return mismatch();
  return layout;
}

}  // namespace lamina
