// Losses and non-maximum suppression.
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Scores [N, C, D1..Dk], labels [N, D1..Dk]: the loss is per label, or one number when reduced.
Status SetLossShape(InferenceContext& context) {
  const std::string_view reduction = context.String("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    return context.Error("reduction is '{}'", reduction);
  }
  if (reduction != "none") {
    context.SetOutputShape(0, {});
  } else if (const SymbolicShape* labels = context.InputShape(1)) {
    context.SetOutputShape(0, *labels);
  }
  return {};
}

Status InferNegativeLogLikelihoodLoss(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  if (const SymbolicShape* scores = context.InputShape(0)) {
    LAMINA_RETURN_IF_ERROR(context.CheckRank(1, scores->rank() - 1));
  }
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  return SetLossShape(context);
}

Status InferSoftmaxCrossEntropyLoss(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(InferNegativeLogLikelihoodLoss(context));
  if (const SymbolicShape* scores = context.InputShape(0)) context.SetOutputShape(1, *scores);
  return {};
}

// boxes [batch, boxes, 4], scores [batch, classes, boxes] -> triples of indices.
Status InferNonMaxSuppression(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 3));
  context.SetOutputShape(0, {{DimExpr::Unknown(), 3}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"NegativeLogLikelihoodLoss", 12, "T I T? -> T | T=float I=i32,i64", InferNegativeLogLikelihoodLoss},
    {"NonMaxSuppression", 10, "f32 f32 i64? f32? f32? -> i64", InferNonMaxSuppression},
    {"SoftmaxCrossEntropyLoss", 12, "T I T? -> T T? | T=float I=i32,i64", InferSoftmaxCrossEntropyLoss},
};

}  // namespace

std::span<const OperatorEntry> LossOperators() { return kOperators; }

}  // namespace lamina
