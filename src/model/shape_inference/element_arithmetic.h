// Arithmetic on the symbolic elements of small tensors.
#pragma once

#include <span>
#include <vector>

#include "model/shape_inference/inference_context.h"

namespace lamina {

using BinaryElementFunction = DimExpr (*)(const DimExpr& a, const DimExpr& b);

// Combines the elements of two inputs, one of which may be a single element; null where they are not known
// or broadcast otherwise.
SymbolicElements CombineElements(const InferenceContext& context, int a, int b,
                                 BinaryElementFunction combine);

// The elements that a view of a small tensor reads: axis i of the result walks axis `axis` of the source from
// `start` in steps of `step`, `count` times. REQUIRES: `shape` has as many elements, the walks stay inside.
struct AxisWalk {
  size_t axis = 0;
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};
std::vector<DimExpr> WalkElements(const std::vector<DimExpr>& elements, const Shape& shape,
                                  std::span<const AxisWalk> walks);

// Integer division as C does it.
DimExpr TruncatingDiv(const DimExpr& a, const DimExpr& b);
// The quotient where it is a whole number for certain.
DimExpr ExactDiv(const DimExpr& a, const DimExpr& b);
// The remainder with the sign of the dividend.
DimExpr TruncatingMod(const DimExpr& a, const DimExpr& b);

}  // namespace lamina
