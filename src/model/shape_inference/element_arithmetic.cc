#include "model/shape_inference/element_arithmetic.h"

#include <algorithm>
#include <limits>

namespace lamina {
namespace {

bool IsNonNegative(const DimExpr& value) { return value.Bounds({}).min >= 0; }

bool OverflowsDivision(int64_t a, int64_t b) {
  return b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min());
}

}  // namespace

SymbolicElements CombineElements(const InferenceContext& context, int a, int b,
                                 BinaryElementFunction combine) {
  const std::vector<DimExpr>* left = context.InputElements(a);
  if (left == nullptr) return nullptr;
  const std::vector<DimExpr>* right = context.InputElements(b);
  if (right == nullptr) return nullptr;
  const SymbolicShape* left_shape = context.InputShape(a);
  const SymbolicShape* right_shape = context.InputShape(b);
  const bool same = left_shape != nullptr && right_shape != nullptr && *left_shape == *right_shape;
  if (!same && left->size() != 1 && right->size() != 1) return nullptr;
  if (left->empty() || right->empty()) return nullptr;
  std::vector<DimExpr> result(std::max(left->size(), right->size()));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = combine((*left)[left->size() == 1 ? 0 : i], (*right)[right->size() == 1 ? 0 : i]);
  }
  return std::make_shared<const std::vector<DimExpr>>(std::move(result));
}

std::vector<DimExpr> WalkElements(const std::vector<DimExpr>& elements, const Shape& shape,
                                  std::span<const AxisWalk> walks) {
  int64_t count = 1;
  for (const AxisWalk& walk : walks) count *= walk.count;
  std::vector<DimExpr> result;
  result.reserve(static_cast<size_t>(count));
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    int64_t offset = 0;
    for (size_t i = walks.size(); i-- > 0;) {
      const AxisWalk& walk = walks[i];
      const auto axis = static_cast<int>(walk.axis);
      offset += (walk.start + rest % walk.count * walk.step) * shape.num_elements(axis + 1, shape.rank());
      rest /= walk.count;
    }
    result.push_back(elements[static_cast<size_t>(offset)]);
  }
  return result;
}

DimExpr TruncatingDiv(const DimExpr& a, const DimExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    if (OverflowsDivision(*a.constant(), *b.constant())) return DimExpr::Unknown();
    return *a.constant() / *b.constant();
  }
  return IsNonNegative(a) && IsNonNegative(b) ? DimExpr::FloorDiv(a, b) : ExactDiv(a, b);
}

DimExpr ExactDiv(const DimExpr& a, const DimExpr& b) {
  if (b.Is(0)) return DimExpr::Unknown();
  DimExpr quotient = DimExpr::FloorDiv(a, b);
  return quotient * b == a ? quotient : DimExpr::Unknown();
}

DimExpr TruncatingMod(const DimExpr& a, const DimExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    if (OverflowsDivision(*a.constant(), *b.constant())) return DimExpr::Unknown();
    return *a.constant() % *b.constant();
  }
  return IsNonNegative(a) && IsNonNegative(b) ? DimExpr::Mod(a, b) : DimExpr::Unknown();
}

}  // namespace lamina
