// Normalisations.
#include "model/shape_inference/normalization.h"

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// The type in which statistics are computed and given out.
Result<DataType> StashType(InferenceContext& context) {
  return DataTypeFromNumber(context, context.Int("stash_type", static_cast<int64_t>(DataType::kFloat)));
}

Status InferLayerNormalization(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(const DataType stash_type, StashType(context));
  for (int i = 1; i < context.num_outputs(); ++i) context.SetOutputElement(i, stash_type);
  return InferNormalized(context);
}

Status InferRmsNormalization(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(StashType(context).status());
  if (const SymbolicShape* x = context.InputShape(0)) {
    LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("axis", -1), x->rank()).status());
  }
  return InferSameShape(context);
}

Status InferBatchNormalization(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1, Shape::kMaxRank));
  const SymbolicShape* x = context.InputShape(0);
  DimExpr channels = x != nullptr && x->rank() > 1 ? x->dims[1] : DimExpr(1);
  if (x == nullptr) channels = DimExpr::Unknown();
  constexpr int kAlwaysSpatialOpset = 9;
  const bool spatial = context.opset() >= kAlwaysSpatialOpset || context.Int("spatial", 1) != 0;
  for (int i = 1; i < 5 && spatial; ++i) {
    LAMINA_RETURN_IF_ERROR(context.CheckRank(i, 1));
    if (const SymbolicShape* parameter = context.InputShape(i)) {
      LAMINA_ASSIGN_OR_RETURN(channels, context.Unify(channels, parameter->dims[0], "the channels"));
    }
  }
  if (x != nullptr) context.SetOutputShape(0, *x);
  for (int i = 1; i < context.num_outputs(); ++i) context.SetOutputShape(i, {{channels}});
  return {};
}

Status InferChannelNormalization(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  return InferSameShape(context);
}

Status InferGroupNormalization(InferenceContext& context) {
  if (context.RequiredInt("num_groups") < 1) return context.Error("num_groups must be at least 1");
  return InferChannelNormalization(context);
}

Status InferLpNormalization(InferenceContext& context) {
  if (const SymbolicShape* x = context.InputShape(0)) {
    LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("axis", -1), x->rank()).status());
  }
  return InferSameShape(context);
}

Status InferLrn(InferenceContext& context) {
  context.Require("size");
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  return InferSameShape(context);
}

constexpr OperatorEntry kOperators[] = {
    {"BatchNormalization", 1, "T T T T T -> T T? T? T? T? | T=float", InferBatchNormalization},
    {"BatchNormalization", 14, "T T1 T1 T2 T2 -> T T2? T2? | T=float T1=float T2=float",
     InferBatchNormalization},
    {"GroupNormalization", 18, "T T T -> T | T=float", InferGroupNormalization},
    {"InstanceNormalization", 1, "T T T -> T | T=float", InferChannelNormalization},
    {"LRN", 1, "T -> T | T=float", InferLrn},
    {"LayerNormalization", 1, "T S S? -> T U? U? | T=float S=float", InferLayerNormalization},
    {"LpNormalization", 1, "T -> T | T=float", InferLpNormalization},
    {"MeanVarianceNormalization", 9, "T -> T | T=float", InferSameShape},
    {"RMSNormalization", 23, "T S -> T | T=float S=float", InferRmsNormalization},
    // Exports of ONNX Runtime use it in the default domain.
    {"SimplifiedLayerNormalization", 1, "T S -> T U? | T=float S=float", InferLayerNormalization},
};

}  // namespace

Status InferNormalized(InferenceContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", -1), x->rank()));
  if (const SymbolicShape* scale = context.InputShape(1)) {
    LAMINA_RETURN_IF_ERROR(BroadcastShapes(context, *x, *scale).status());
  }
  context.SetOutputShape(0, *x);
  SymbolicShape statistics = *x;
  for (int i = axis; i < x->rank(); ++i) statistics.dims[static_cast<size_t>(i)] = 1;
  for (int i = 1; i < context.num_outputs(); ++i) context.SetOutputShape(i, statistics);
  return {};
}

std::span<const OperatorEntry> NormalizationOperators() { return kOperators; }

}  // namespace lamina
