#include "plan/value_sizes.h"

#include <algorithm>

#include "model/value_size.h"

namespace lamina {

ValueSizes::ValueSizes(const Graph& graph, SymbolBounds bounds)
    : graph_(graph),
      bounds_(std::move(bounds)),
      shapes_(graph.values().size()),
      bytes_(graph.values().size()) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const ValueInfo& value = graph.values()[i];
    if (!value.shape || value.shape->rank() > Shape::kMaxRank) continue;
    ShapeBounds& shape = shapes_[i].emplace();
    for (const DimExpr& dim : value.shape->dims) shape.Append(dim.Bounds(bounds_));
    if (!value.type.is_tensor() || value.type.element == DataType::kString || !shape.bounded()) continue;
    Shape largest = shape.Max();
    for (int axis = 0; axis < largest.rank(); ++axis) largest[axis] = std::max<int64_t>(largest[axis], 0);
    const Result<uint64_t> bytes = TensorBytes(value.type.element, largest);
    if (bytes.ok()) bytes_[i] = *bytes;
  }
}

const ShapeBounds* ValueSizes::ShapeOf(ValueId id) const {
  if (!id.valid()) return nullptr;
  const std::optional<ShapeBounds>& shape = shapes_[static_cast<size_t>(id.index)];
  return shape ? &*shape : nullptr;
}

Result<uint64_t> ValueSizes::Bytes(ValueId id) const {
  if (IsBounded(id)) return BytesOrZero(id);
  return LargestBytes(graph_, id, bounds_);  // says why
}

}  // namespace lamina
