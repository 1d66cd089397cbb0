#include "model/shape_inference/shape_helpers.h"

#include <algorithm>

namespace lamina {

Result<DimExpr> BroadcastDims(const InferenceContext& context, const DimExpr& a, const DimExpr& b) {
  if (a.Is(1)) return b;
  if (b.Is(1)) return a;
  if (!a.known() || !b.known()) {
    // A constant above 1 wins over whatever the other is.
    if (a.is_constant()) return a;
    return b.is_constant() ? b : DimExpr::Unknown();
  }
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) {
    return context.Error("dimensions {} and {} cannot be broadcast", a.ToString(), b.ToString());
  }
  if (a.is_constant()) return a;
  if (b.is_constant()) return b;
  return DimExpr::Max(a, b);
}

Result<SymbolicShape> BroadcastShapes(const InferenceContext& context, const SymbolicShape& a,
                                      const SymbolicShape& b) {
  const SymbolicShape& longer = a.rank() >= b.rank() ? a : b;
  const SymbolicShape& shorter = a.rank() >= b.rank() ? b : a;
  SymbolicShape result = longer;
  const size_t offset = longer.dims.size() - shorter.dims.size();
  for (size_t i = 0; i < shorter.dims.size(); ++i) {
    DimExpr& dim = result.dims[offset + i];
    Result<DimExpr> broadcast = BroadcastDims(context, dim, shorter.dims[i]);
    if (!broadcast.ok()) {
      return context.Error("shapes {} and {} cannot be broadcast", a.ToString(), b.ToString());
    }
    dim = *std::move(broadcast);
  }
  return result;
}

Result<std::optional<SymbolicShape>> BroadcastInputs(const InferenceContext& context, int first, int count) {
  std::optional<SymbolicShape> result;
  for (int i = first; i < first + count; ++i) {
    if (!context.HasInput(i)) continue;
    const SymbolicShape* shape = context.InputShape(i);
    if (shape == nullptr) return std::optional<SymbolicShape>();
    if (!result) {
      result = *shape;
    } else {
      LAMINA_ASSIGN_OR_RETURN(result, BroadcastShapes(context, *result, *shape));
    }
  }
  return result;
}

SymbolicShape UnknownShape(int rank) {
  return {std::vector<DimExpr>(static_cast<size_t>(rank), DimExpr::Unknown())};
}

DimExpr Product(std::span<const DimExpr> dims, int begin, int end) {
  DimExpr product = 1;
  for (int i = begin; i < end; ++i) product = product * dims[static_cast<size_t>(i)];
  return product;
}

DimExpr TruthOfRange(const DimExpr& difference, int64_t low, int64_t high) {
  const DimBounds bounds = difference.Bounds({});
  if (bounds.min >= low && bounds.max <= high) return 1;
  if (bounds.max < low || bounds.min > high) return 0;
  return DimExpr::Unknown();
}

Result<DataType> DataTypeFromNumber(const InferenceContext& context, int64_t number) {
  if (number <= 0 || number > static_cast<int64_t>(DataType::kInt2)) {
    return context.Error("there is no data type {}", number);
  }
  return static_cast<DataType>(number);
}

Status InferSameShape(InferenceContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (shape == nullptr) return {};
  for (int i = 0; i < context.num_outputs(); ++i) context.SetOutputShape(i, *shape);
  return {};
}

Status InferIdentity(InferenceContext& context) {
  context.SetOutput(0, context.Input(0));
  return {};
}

Status InferBroadcast(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(auto shape, BroadcastInputs(context, 0, context.num_inputs()));
  if (shape) context.SetOutputShape(0, *std::move(shape));
  return {};
}

Status InferNothing(InferenceContext& context) {
  (void)context;
  return {};
}

}  // namespace lamina
