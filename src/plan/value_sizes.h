// How large the values of a graph get in a phase, worked out once for all who ask.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lamina/status.h"
#include "model/dim_expr.h"
#include "model/graph.h"

namespace lamina {

// Immutable; the graph must outlive it.
class ValueSizes {
 public:
  ValueSizes(const Graph& graph, SymbolBounds bounds);

  // Bounds of the dimensions; null where the rank is not known or the value is absent.
  const ShapeBounds* ShapeOf(ValueId id) const;
  // Bytes at the largest the shape takes. UNSUPPORTED as LargestBytes (model/value_size.h).
  Result<uint64_t> Bytes(ValueId id) const;
  bool IsBounded(ValueId id) const { return bytes_[static_cast<size_t>(id.index)].has_value(); }
  uint64_t BytesOrZero(ValueId id) const { return bytes_[static_cast<size_t>(id.index)].value_or(0); }

 private:
  const Graph& graph_;
  SymbolBounds bounds_;
  std::vector<std::optional<ShapeBounds>> shapes_;  // by value index
  std::vector<std::optional<uint64_t>> bytes_;
};

}  // namespace lamina
