#include "model/value_size.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

Result<uint64_t> LargestBytes(const Graph& graph, ValueId id, const SymbolBounds& symbol_bounds) {
  const ValueInfo& value = graph.value(id);
  if (!value.type.is_tensor() || value.type.element == DataType::kString) {
    return UnsupportedError("value '{}' of type {} has no planned place", value.name.view(),
                            value.type.ToString());
  }
  if (!value.shape) return UnsupportedError("value '{}' has no known rank", value.name.view());
  if (value.shape->rank() > Shape::kMaxRank)
    return UnsupportedError("value '{}' has too many dimensions", value.name.view());
  Shape largest;
  for (const DimExpr& dim : value.shape->dims) {
    const DimBounds bounds = dim.Bounds(symbol_bounds);
    if (bounds.max == kUnboundedDim) {
      return UnsupportedError("value '{}' has the dimension {}, which has no bound", value.name.view(),
                              dim.ToString());
    }
    largest.Append(std::max<int64_t>(bounds.max, 0));
  }
  return TensorBytes(value.type.element, largest);
}

}  // namespace lamina
