#include "model/sparse_tensor.h"

#include <cstring>

#include "base/error.h"

namespace lamina {

Status ValidateSparseTensor(const SparseTensor& sparse) {
  const Initializer& values = sparse.values;
  const Initializer& indices = sparse.indices;
  if (values.type == DataType::kUndefined) return InvalidModelError("has no values");
  if (DataTypeBits(values.type) < 8 || values.type == DataType::kString) {
    return UnsupportedError("values of {} cannot be sparse", DataTypeName(values.type));
  }
  if (values.shape.rank() != 1) {
    return InvalidModelError("expected values of one dimension, found {}", values.shape.ToString());
  }
  const int64_t count = values.shape[0];
  const bool has_indices = indices.type != DataType::kUndefined;
  if (count > 0 && (!has_indices || indices.type != DataType::kInt64)) {
    return InvalidModelError("expected indices of int64, found {}", DataTypeName(indices.type));
  }
  if (has_indices) {
    const bool linear = indices.shape == Shape{count};
    const bool coordinates = indices.shape == Shape{count, sparse.shape.rank()};
    if (!linear && !coordinates) {
      return InvalidModelError("expected indices [{}] or [{},{}], found {}", count, count,
                               sparse.shape.rank(), indices.shape.ToString());
    }
  }
  return TensorBytes(values.type, sparse.shape).status();
}

Result<Tensor> MakeDense(const SparseTensor& sparse) {
  LAMINA_ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(sparse.values.type, sparse.shape));
  const int64_t count = sparse.values.shape[0];
  if (count == 0) return dense;
  const std::optional<Tensor> values = sparse.values.InMemory();
  const std::optional<Tensor> indices = sparse.indices.InMemory();
  if (!values || !indices) return UnsupportedError("a sparse tensor has its values in external data");

  const auto element_bytes = static_cast<size_t>(DataTypeBits(dense.type()) / 8);
  const auto* value_bytes = static_cast<const std::byte*>(values->raw_data());
  const auto* index_bytes = static_cast<const std::byte*>(indices->raw_data());
  auto* dense_bytes = static_cast<std::byte*>(dense.mutable_raw_data());
  const Shape& shape = sparse.shape;
  // Views of a file need not be aligned.
  const auto next_index = [&index_bytes] {
    int64_t index = 0;
    std::memcpy(&index, index_bytes, sizeof(index));
    index_bytes += sizeof(index);
    return index;
  };
  const bool linear = indices->shape().rank() == 1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = 0;
    if (linear) {
      position = next_index();
      if (position < 0 || position >= dense.num_elements()) {
        return InvalidModelError("index {} of a sparse tensor is outside its shape {}", position,
                                 shape.ToString());
      }
    } else {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const int64_t index = next_index();
        if (index < 0 || index >= shape[axis]) {
          return InvalidModelError("index {} on axis {} of a sparse tensor is outside its shape {}", index,
                                   axis, shape.ToString());
        }
        position = position * shape[axis] + index;
      }
    }
    std::memcpy(dense_bytes + static_cast<size_t>(position) * element_bytes,
                value_bytes + static_cast<size_t>(i) * element_bytes, element_bytes);
  }
  return dense;
}

}  // namespace lamina
