#include "providers/cpu/tensor/indices.h"

namespace lamina {
namespace {

Status CheckType(const Tensor& indices) {
  if (kIndexTypes.Contains(indices.type())) return Status();
  return InvalidArgumentError("indices must be int32 or int64, found {}", DataTypeName(indices.type()));
}

}  // namespace

Status CheckIndices(const Tensor& indices, int64_t extent) { return CheckIndexTuples(indices, {&extent, 1}); }

Status CheckIndexTuples(const Tensor& indices, std::span<const int64_t> extents) {
  LAMINA_RETURN_IF_ERROR(CheckType(indices));
  const int64_t count = indices.num_elements();
  const auto width = static_cast<int64_t>(extents.size());
  for (int64_t i = 0, column = 0; i < count; ++i) {
    const int64_t index = IndexAt(indices, i);
    const int64_t extent = extents[static_cast<size_t>(column)];
    if (index < -extent || index >= extent) {
      return InvalidArgumentError("index {} (element {}) is out of range [{}, {})", index, i, -extent,
                                  extent);
    }
    if (++column == width) column = 0;
  }
  return Status();
}

}  // namespace lamina
