#include "model/derived_tensor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

bool IsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

bool HasWholeBytes(DataType type) { return DataTypeBits(type) >= 8 && type != DataType::kString; }

DerivedTensor Operation(DerivedOperation operation, DataType type, const Shape& shape,
                        std::vector<DerivedTensorPtr> operands) {
  DerivedTensor derived;
  derived.operation = operation;
  derived.type = type;
  derived.shape = shape;
  derived.operands = std::move(operands);
  return derived;
}

DerivedTensorPtr Share(DerivedTensor derived) {
  return std::make_shared<const DerivedTensor>(std::move(derived));
}

}  // namespace

const char* DerivedOperationName(DerivedOperation operation) {
  switch (operation) {
    case DerivedOperation::kSource:
      return "source";
    case DerivedOperation::kConcat:
      return "concat";
    case DerivedOperation::kSlice:
      return "slice";
    case DerivedOperation::kTranspose:
      return "transpose";
    case DerivedOperation::kReshape:
      return "reshape";
    case DerivedOperation::kCast:
      return "cast";
    case DerivedOperation::kMultiply:
      return "multiply";
    case DerivedOperation::kQuantizeBlocks:
      return "quantize";
    case DerivedOperation::kBlockScales:
      return "scales";
    case DerivedOperation::kPackIntegers:
      return "pack";
  }
  return "unknown";
}

bool DerivedTensors::IsDerived(const Initializer& initializer) {
  const auto* ref = std::get_if<ExternalDataRef>(&initializer.source);
  return ref != nullptr && ref->location.empty();
}

DerivedTensorPtr DerivedTensors::ExpressionOf(const Initializer& initializer) const {
  if (IsDerived(initializer)) return Find(initializer.name);
  DerivedTensor source = Operation(DerivedOperation::kSource, initializer.type, initializer.shape, {});
  source.source = initializer;
  return Share(std::move(source));
}

DerivedTensorPtr DerivedTensors::Find(std::string_view name) const {
  const auto found = expressions_.find(name);
  return found == expressions_.end() ? nullptr : found->second;
}

Initializer DerivedTensors::Add(const std::string& name, DerivedTensorPtr expression) {
  Initializer initializer;
  initializer.type = expression->type;
  initializer.shape = expression->shape;
  ExternalDataRef nowhere;
  nowhere.length_bytes = initializer.size_bytes();
  initializer.source = std::move(nowhere);
  expressions_.insert_or_assign(name, std::move(expression));
  return initializer;
}

Result<DerivedTensorPtr> DeriveConcat(std::vector<DerivedTensorPtr> operands, int axis) {
  if (operands.empty()) return InvalidArgumentError("concat of no tensors");
  const DataType type = operands.front()->type;
  Shape shape = operands.front()->shape;
  if (axis < 0 || axis >= shape.rank() || !HasWholeBytes(type)) {
    return InvalidArgumentError("concat of {}{} along axis {}", DataTypeName(type), shape.ToString(), axis);
  }
  shape[axis] = 0;
  for (const DerivedTensorPtr& operand : operands) {
    Shape others = operand->shape;
    const bool fits = operand->type == type && others.rank() == shape.rank();
    const int64_t length = fits ? std::exchange(others[axis], shape[axis]) : 0;
    if (!fits || others != shape) {
      return InvalidArgumentError("concat of {}{} along axis {}: {}{} does not match", DataTypeName(type),
                                  operands.front()->shape.ToString(), axis, DataTypeName(operand->type),
                                  operand->shape.ToString());
    }
    shape[axis] += length;
  }
  DerivedTensor derived = Operation(DerivedOperation::kConcat, type, shape, std::move(operands));
  derived.axis = axis;
  return Share(std::move(derived));
}

Result<DerivedTensorPtr> DeriveSlice(DerivedTensorPtr operand, int axis, int64_t start, int64_t count) {
  Shape shape = operand->shape;
  const bool has_axis = axis >= 0 && axis < shape.rank();
  if (!has_axis || start < 0 || count < 0 || count > shape[axis] - start || !HasWholeBytes(operand->type)) {
    return InvalidArgumentError("slice of {}{}: {} indices from {} on along axis {}",
                                DataTypeName(operand->type), shape.ToString(), count, start, axis);
  }
  if (count == shape[axis]) return operand;
  shape[axis] = count;
  const DataType type = operand->type;
  DerivedTensor derived = Operation(DerivedOperation::kSlice, type, shape, {std::move(operand)});
  derived.axis = axis;
  derived.start = start;
  return Share(std::move(derived));
}

Result<DerivedTensorPtr> DeriveTranspose(DerivedTensorPtr operand, std::vector<int64_t> perm) {
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = static_cast<int>(perm.size()) == operand->shape.rank();
  for (size_t i = 0; i < sorted.size(); ++i) is_permutation &= sorted[i] == static_cast<int64_t>(i);
  if (!is_permutation || !HasWholeBytes(operand->type)) {
    return InvalidArgumentError("transpose of {}{} by {} axes", DataTypeName(operand->type),
                                operand->shape.ToString(), perm.size());
  }
  Shape shape;
  for (const int64_t axis : perm) shape.Append(operand->shape[static_cast<int>(axis)]);
  const DataType type = operand->type;
  DerivedTensor derived = Operation(DerivedOperation::kTranspose, type, shape, {std::move(operand)});
  derived.perm = std::move(perm);
  return Share(std::move(derived));
}

Result<DerivedTensorPtr> DeriveReshape(DerivedTensorPtr operand, const Shape& shape) {
  if (shape.num_elements() != operand->shape.num_elements()) {
    return InvalidArgumentError("reshape of {} to {}", operand->shape.ToString(), shape.ToString());
  }
  const DataType type = operand->type;
  return Share(Operation(DerivedOperation::kReshape, type, shape, {std::move(operand)}));
}

Result<DerivedTensorPtr> DeriveCast(DerivedTensorPtr operand, DataType type) {
  if (!IsFloat(operand->type) || !IsFloat(type)) {
    return InvalidArgumentError("cast from {} to {}", DataTypeName(operand->type), DataTypeName(type));
  }
  const Shape shape = operand->shape;
  return Share(Operation(DerivedOperation::kCast, type, shape, {std::move(operand)}));
}

Result<DerivedTensorPtr> DeriveMultiply(DerivedTensorPtr operand, DerivedTensorPtr factors, int axis) {
  const int64_t count = factors->shape.num_elements();
  const Shape shape = operand->shape;
  const bool fits = count == 1 || (axis >= 0 && axis < shape.rank() && shape[axis] == count);
  if (!IsFloat(operand->type) || factors->type != operand->type || !fits) {
    return InvalidArgumentError("product of {}{} and {}{} along axis {}", DataTypeName(operand->type),
                                shape.ToString(), DataTypeName(factors->type), factors->shape.ToString(),
                                axis);
  }
  const DataType type = operand->type;
  DerivedTensor derived =
      Operation(DerivedOperation::kMultiply, type, shape, {std::move(operand), std::move(factors)});
  derived.axis = axis;
  return Share(std::move(derived));
}

Result<DerivedTensorPtr> DerivePackedIntegers(DerivedTensorPtr operand, int k_axis) {
  const DataType type = operand->type;
  const bool is_integer = type == DataType::kInt4 || type == DataType::kUint4 || type == DataType::kInt8 ||
                          type == DataType::kUint8;
  if (!is_integer || operand->shape.rank() != 2 || (k_axis != 0 && k_axis != 1)) {
    return InvalidArgumentError("{}{} is no matrix of 4-bit or 8-bit integers", DataTypeName(type),
                                operand->shape.ToString());
  }
  const int64_t row_bits = operand->shape[k_axis] * DataTypeBits(type);
  const Shape shape{operand->shape[1 - k_axis], (row_bits + 7) / 8};
  DerivedTensor derived =
      Operation(DerivedOperation::kPackIntegers, DataType::kUint8, shape, {std::move(operand)});
  derived.axis = k_axis;
  return Share(std::move(derived));
}

Result<QuantizedMatrix> DeriveQuantized(const DerivedTensorPtr& operand, int bits, int64_t block_size) {
  if (!IsFloat(operand->type) || operand->shape.rank() != 2 || operand->shape.num_elements() == 0) {
    return InvalidArgumentError("{}{} is no matrix of floating-point numbers", DataTypeName(operand->type),
                                operand->shape.ToString());
  }
  if ((bits != 4 && bits != 8) || block_size < 16 || (block_size & (block_size - 1)) != 0) {
    return InvalidArgumentError("{} bits in blocks of {}: expected 4 or 8, and a power of two of at least 16",
                                bits, block_size);
  }
  // Columns that were concatenated are quantised one by one: no merged weight is ever whole in memory.
  if (operand->operation == DerivedOperation::kConcat && operand->axis == 1) {
    std::vector<DerivedTensorPtr> packed;
    std::vector<DerivedTensorPtr> scales;
    for (const DerivedTensorPtr& part : operand->operands) {
      LAMINA_ASSIGN_OR_RETURN(QuantizedMatrix one, DeriveQuantized(part, bits, block_size));
      packed.push_back(std::move(one.packed));
      scales.push_back(std::move(one.scales));
    }
    QuantizedMatrix all;
    LAMINA_ASSIGN_OR_RETURN(all.packed, DeriveConcat(std::move(packed), 0));
    LAMINA_ASSIGN_OR_RETURN(all.scales, DeriveConcat(std::move(scales), 0));
    return all;
  }
  const int64_t k = operand->shape[0];
  const int64_t n = operand->shape[1];
  const int64_t blocks = (k + block_size - 1) / block_size;
  DerivedTensor packed = Operation(DerivedOperation::kQuantizeBlocks, DataType::kUint8,
                                   Shape{n, blocks, block_size * bits / 8}, {operand});
  packed.bits = bits;
  packed.block_size = block_size;
  DerivedTensor scales = packed;
  scales.operation = DerivedOperation::kBlockScales;
  scales.type = operand->type;
  scales.shape = Shape{n, blocks};
  return QuantizedMatrix{Share(std::move(packed)), Share(std::move(scales))};
}

}  // namespace lamina
