// Fused and layout-changing operators of com.microsoft.
#include <algorithm>

#include "model/shape_inference/matmul.h"
#include "model/shape_inference/shape_helpers.h"
#include "model/shape_inference/sliding_window.h"

namespace lamina {
namespace {

// A shape with the axes moved that the transposition attributes say: transBatch moves the first axis behind
// the other batch axes, trans swaps the last two.
SymbolicShape Transposed(const SymbolicShape& shape, bool transpose, bool transpose_batch) {
  SymbolicShape result = shape;
  if (result.rank() >= 3 && transpose_batch) {
    std::rotate(result.dims.begin(), result.dims.begin() + 1, result.dims.end() - 1);
  }
  if (result.rank() >= 2 && transpose) std::iter_swap(result.dims.end() - 1, result.dims.end() - 2);
  return result;
}

Status InferFusedMatMul(InferenceContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(1);
  if (a == nullptr || b == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(
      SymbolicShape result,
      MatMulShape(context, Transposed(*a, context.Int("transA", 0) != 0, context.Int("transBatchA", 0) != 0),
                  Transposed(*b, context.Int("transB", 0) != 0, context.Int("transBatchB", 0) != 0)));
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferFusedConv(InferenceContext& context) { return InferConvOf(context, 0, 1); }

Status InferFusedGemm(InferenceContext& context) {
  return FindOperator("", "Gemm", std::numeric_limits<int>::max())->infer(context);
}

Status InferNhwcMaxPool(InferenceContext& context) { return InferPool(context, true); }

// The bias is as long as the last axis.
Status InferBiasOnLastAxis(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* bias = context.InputShape(1);
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  if (x != nullptr && bias != nullptr) {
    LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, Shape::kMaxRank));
    LAMINA_RETURN_IF_ERROR(context.Unify(x->dims.back(), bias->dims[0], "the bias").status());
  }
  return InferSameShape(context);
}

// X [..., 2N] plus bias; half of it gates the other half.
Status InferBiasSplitGelu(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, Shape::kMaxRank));
  SymbolicShape result = *x;
  result.dims.back() = DimExpr::FloorDiv(result.dims.back(), 2);
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferInverse(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  return InferSameShape(context);
}

Status InferExpandDims(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const auto axis = context.InputInts(1);
  if (x == nullptr || !axis || axis->size() != 1) return {};
  LAMINA_ASSIGN_OR_RETURN(const int at, context.Axis((*axis)[0], x->rank() + 1));
  SymbolicShape result = *x;
  result.dims.insert(result.dims.begin() + at, DimExpr(1));
  context.SetOutputShape(0, std::move(result));
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"BiasAdd", 1, "T T T -> T | T=float", InferSameShape},
    {"BiasGelu", 1, "T T -> T | T=float", InferBiasOnLastAxis},
    {"BiasSoftmax", 1, "T T -> T | T=float", InferSameShape},
    {"BiasSplitGelu", 1, "T T -> T | T=float", InferBiasSplitGelu},
    {"ExpandDims", 1, "T i32 -> T", InferExpandDims},
    {"FastGelu", 1, "T T? -> T | T=float", InferBiasOnLastAxis},
    {"FusedConv", 1, "T T T? T? -> T | T=float", InferFusedConv},
    {"FusedGemm", 1, "T T T? -> T | T=float", InferFusedGemm},
    {"FusedMatMul", 1, "T T -> T | T=float", InferFusedMatMul},
    {"Gelu", 1, "T -> T | T=float", InferSameShape},
    {"Inverse", 1, "T -> T | T=float", InferInverse},
    {"NhwcMaxPool", 1, "T -> T | T=i8,u8", InferNhwcMaxPool},
    {"QuickGelu", 1, "T -> T | T=float", InferSameShape},
    {"TransposeMatMul", 1, "T T -> T | T=float", InferFusedMatMul},
    {"Trilu", 1, "T i64? -> T", InferSameShape},
};

}  // namespace

std::span<const OperatorEntry> ContribFusedOperators() { return kOperators; }

}  // namespace lamina
