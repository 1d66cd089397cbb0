#include "providers/cpu/kernel_util.h"

#include <cstring>
#include <string>

namespace lamina {

Result<IntList> IntsAttribute(const NodeInfo& node, std::string_view attribute) {
  const std::span<const int64_t> values = node.Ints(attribute);
  if (values.size() > IntList::kCapacity) {
    return InvalidModelError("attribute '{}' has {} values, at most {} make sense", attribute, values.size(),
                             IntList::kCapacity);
  }
  return IntList(values);
}

Result<const Tensor*> RequireInput(const KernelContext& context, int index) {
  const Tensor* tensor = context.Input(index);
  if (!tensor) return InvalidArgumentError("input {} is missing or no tensor", index);
  return tensor;
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgumentError("axis {} is out of range for rank {}", axis, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<uint32_t> AxisMask(std::span<const int64_t> axes, int rank) {
  uint32_t mask = 0;
  for (const int64_t value : axes) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(value, rank));
    if ((mask >> axis & 1u) != 0) return InvalidArgumentError("axis {} is named twice", value);
    mask |= 1u << axis;
  }
  return mask;
}

Result<IntList> ReadInts(const Tensor& tensor) {
  if (tensor.shape().rank() > 1 || tensor.num_elements() > IntList::kCapacity) {
    return InvalidArgumentError("a list of at most {} integers expected, found shape {}", IntList::kCapacity,
                                tensor.shape().ToString());
  }
  IntList list;
  if (tensor.type() == DataType::kInt64) {
    for (const int64_t value : tensor.elements<int64_t>()) list.Append(value);
  } else if (tensor.type() == DataType::kInt32) {
    for (const int32_t value : tensor.elements<int32_t>()) list.Append(value);
  } else {
    return InvalidArgumentError("integers expected, found {}", DataTypeName(tensor.type()));
  }
  return list;
}

Result<int64_t> ReadInt(const Tensor& tensor) {
  if (tensor.num_elements() != 1) {
    return InvalidArgumentError("one integer expected, found shape {}", tensor.shape().ToString());
  }
  if (tensor.type() == DataType::kInt64) return *tensor.data<int64_t>();
  if (tensor.type() == DataType::kInt32) return int64_t{*tensor.data<int32_t>()};
  return InvalidArgumentError("an integer expected, found {}", DataTypeName(tensor.type()));
}

Result<double> ReadNumber(const Tensor& tensor) {
  if (tensor.num_elements() != 1) {
    return InvalidArgumentError("one number expected, found shape {}", tensor.shape().ToString());
  }
  double number = 0;
  if (!DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                    uint32_t, uint64_t>(tensor.type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        number = static_cast<double>(static_cast<ComputeType<T>>(*tensor.data<T>()));
      })) {
    return InvalidArgumentError("a number expected, found {}", DataTypeName(tensor.type()));
  }
  return number;
}

IntList ContiguousStrides(const Shape& shape) {
  IntList strides(shape.rank(), 1);
  for (int axis = shape.rank() - 2; axis >= 0; --axis) strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

void CopyElements(DataType type, const void* source, void* target, int64_t count) {
  if (type == DataType::kString) {
    const auto* strings = static_cast<const std::string*>(source);
    std::copy(strings, strings + count, static_cast<std::string*>(target));
  } else if (count > 0) {
    std::memcpy(target, source, static_cast<size_t>(count * ElementBytes(type)));
  }
}

}  // namespace lamina
