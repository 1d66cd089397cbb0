// Reductions over axes, and operators along one axis that keep the shape.
#include <algorithm>

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

using Accumulate = DimExpr (*)(const DimExpr&, const DimExpr&);

DimExpr Add(const DimExpr& a, const DimExpr& b) { return a + b; }
DimExpr Multiply(const DimExpr& a, const DimExpr& b) { return a * b; }

// The shape without the axes, or with 1 in their place.
Result<SymbolicShape> ReducedShape(const InferenceContext& context, const SymbolicShape& input,
                                   const std::vector<int64_t>& axes, bool keep) {
  std::vector<bool> reduced(input.dims.size());
  for (const int64_t given : axes) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(given, input.rank()));
    reduced[static_cast<size_t>(axis)] = true;
  }
  SymbolicShape result;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      result.dims.push_back(input.dims[i]);
    } else if (keep) {
      result.dims.emplace_back(1);
    }
  }
  return result;
}

// Since `axes_input_opset` the axes are an input.
Status InferReduce(InferenceContext& context, int axes_input_opset, Accumulate accumulate) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const bool keep = context.Int("keepdims", 1) != 0;
  const bool axes_are_input = context.opset() >= axes_input_opset;
  std::optional<std::vector<int64_t>> axes;
  bool axes_given = false;
  if (axes_are_input) {
    axes_given = context.HasInput(1);
    axes = context.InputInts(1);
  } else if (const std::vector<int64_t>* list = context.Ints("axes")) {
    axes_given = true;
    axes = *list;
  }
  if (axes_given && !axes) {
    const SymbolicShape* axes_shape = context.InputShape(1);
    const std::optional<int64_t> count =
        axes_shape != nullptr ? axes_shape->num_elements().constant() : std::nullopt;
    if (keep) {
      context.SetOutputShape(0, UnknownShape(input->rank()));
    } else if (count && *count > 0 && *count <= input->rank()) {
      context.SetOutputShape(0, UnknownShape(input->rank() - static_cast<int>(*count)));
    }
    return {};
  }
  const bool none_given = !axes || axes->empty();
  if (none_given && context.Int("noop_with_empty_axes", 0) != 0) {
    context.SetOutputShape(0, *input);
    return {};
  }
  if (none_given) {
    axes.emplace();
    for (int axis = 0; axis < input->rank(); ++axis) axes->push_back(axis);
  }
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, ReducedShape(context, *input, *axes, keep));
  context.SetOutputShape(0, std::move(result));
  const std::vector<DimExpr>* elements = context.InputElements(0);
  if (accumulate == nullptr || elements == nullptr || elements->empty() || input->rank() != 1) return {};
  DimExpr total = (*elements)[0];
  for (size_t i = 1; i < elements->size(); ++i) total = accumulate(total, (*elements)[i]);
  context.SetOutputElements(0, std::vector<DimExpr>{total});
  return {};
}

// ReduceSum took its axes as input five versions before the others.
template <int axes_input_opset, Accumulate accumulate>
Status InferReduceWith(InferenceContext& context) {
  return InferReduce(context, axes_input_opset, accumulate);
}

Status InferArgReduce(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const int64_t axis = context.Int("axis", 0);
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result,
                          ReducedShape(context, *input, {axis}, context.Int("keepdims", 1) != 0));
  context.SetOutputShape(0, std::move(result));
  return {};
}

// Softmax and its like: the axis is checked, the shape kept.
Status InferAlongAxis(InferenceContext& context) {
  constexpr int kLastAxisOpset = 13;
  if (const SymbolicShape* input = context.InputShape(0); input != nullptr && input->rank() > 0) {
    const int64_t default_axis = context.opset() < kLastAxisOpset ? std::min(1, input->rank() - 1) : -1;
    LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("axis", default_axis), input->rank(), true).status());
  }
  return InferSameShape(context);
}

constexpr OperatorEntry kOperators[] = {
    {"ArgMax", 1, "T -> i64 | T=numeric", InferArgReduce},
    {"ArgMin", 1, "T -> i64 | T=numeric", InferArgReduce},
    {"Hardmax", 1, "T -> T | T=float", InferAlongAxis},
    {"LogSoftmax", 1, "T -> T | T=float", InferAlongAxis},
    {"ReduceL1", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceL1", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceL2", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceL2", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceLogSum", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceLogSum", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceLogSumExp", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceLogSumExp", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceMax", 1, "T -> T | T=numeric", InferReduceWith<18, DimExpr::Max>},
    {"ReduceMax", 18, "T i64? -> T | T=numeric,bool", InferReduceWith<18, DimExpr::Max>},
    {"ReduceMean", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceMean", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceMin", 1, "T -> T | T=numeric", InferReduceWith<18, DimExpr::Min>},
    {"ReduceMin", 18, "T i64? -> T | T=numeric,bool", InferReduceWith<18, DimExpr::Min>},
    {"ReduceProd", 1, "T -> T | T=numeric", InferReduceWith<18, Multiply>},
    {"ReduceProd", 18, "T i64? -> T | T=numeric", InferReduceWith<18, Multiply>},
    {"ReduceSum", 1, "T -> T | T=numeric", InferReduceWith<13, Add>},
    {"ReduceSum", 13, "T i64? -> T | T=numeric", InferReduceWith<13, Add>},
    {"ReduceSumSquare", 1, "T -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"ReduceSumSquare", 18, "T i64? -> T | T=numeric", InferReduceWith<18, nullptr>},
    {"Softmax", 1, "T -> T | T=float", InferAlongAxis},
};

}  // namespace

std::span<const OperatorEntry> ReductionOperators() { return kOperators; }

}  // namespace lamina
