// Operators that make tensors: constants, ranges, random numbers.
#include <cmath>

#include "model/shape_inference/constant_elements.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

SymbolicShape ShapeOf(const Shape& shape) {
  SymbolicShape symbolic;
  for (const int64_t dim : shape) symbolic.dims.emplace_back(dim);
  return symbolic;
}

// Exactly one attribute holds the value.
Status InferConstant(InferenceContext& context) {
  if (context.node().attributes.size() != 1) {
    return context.Error("expected one attribute that holds the value, found {}",
                         context.node().attributes.size());
  }
  const Attribute& attribute = context.node().attributes[0];
  const AttributeValue& value = attribute.value;
  const auto set = [&context](DataType type, SymbolicShape shape) {
    context.SetOutputElement(0, type);
    context.SetOutputShape(0, std::move(shape));
  };
  const auto set_list = [&set](DataType type, const auto& list) {
    set(type, {{static_cast<int64_t>(list.size())}});
  };
  if (const auto* tensor = std::get_if<std::shared_ptr<const Initializer>>(&value)) {
    set((*tensor)->type, ShapeOf((*tensor)->shape));
    if ((*tensor)->shape.num_elements() <= kMaxSymbolicElements) {
      if (const std::optional<Tensor> constant = context.ReadConstant(**tensor)) {
        context.SetOutputElements(0, ElementsOfTensor(*constant));
      }
    }
  } else if (const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&value)) {
    set((*sparse)->values.type, ShapeOf((*sparse)->shape));
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    set(DataType::kInt64, {});
    context.SetOutputElements(0, std::vector<DimExpr>{*integer});
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    set_list(DataType::kInt64, *integers);
    context.SetOutputElements(0, std::vector<DimExpr>(integers->begin(), integers->end()));
  } else if (std::holds_alternative<float>(value)) {
    set(DataType::kFloat, {});
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    set_list(DataType::kFloat, *floats);
  } else if (std::holds_alternative<std::string>(value)) {
    set(DataType::kString, {});
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    set_list(DataType::kString, *strings);
  } else {
    return context.Error("attribute '{}' does not hold a value", attribute.name.view());
  }
  return {};
}

// The shape given by the elements of an input: what is known of it.
std::optional<SymbolicShape> ShapeFromElements(const InferenceContext& context, int input) {
  if (const std::vector<DimExpr>* elements = context.InputElements(input)) return SymbolicShape{*elements};
  const SymbolicShape* shape = context.InputShape(input);
  if (shape == nullptr || shape->rank() != 1) return std::nullopt;
  const std::optional<int64_t> rank = shape->dims[0].constant();
  if (!rank || *rank > Shape::kMaxRank) return std::nullopt;
  return UnknownShape(static_cast<int>(*rank));
}

Status InferConstantOfShape(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1));
  const Initializer* value = context.TensorAttribute("value");
  context.SetOutputElement(0, value != nullptr ? value->type : DataType::kFloat);
  std::optional<SymbolicShape> shape = ShapeFromElements(context, 0);
  if (!shape) return {};
  const std::optional<int64_t> count = shape->num_elements().constant();
  if (count && *count >= 0 && *count <= kMaxSymbolicElements) {
    DimExpr fill = value != nullptr ? DimExpr::Unknown() : DimExpr(0);
    if (value != nullptr) {
      const std::optional<Tensor> constant = context.ReadConstant(*value);
      const SymbolicElements elements = constant ? ElementsOfTensor(*constant) : nullptr;
      if (elements && elements->size() == 1) fill = (*elements)[0];
    }
    context.SetOutputElements(0, std::vector<DimExpr>(static_cast<size_t>(*count), fill));
  }
  context.SetOutputShape(0, *std::move(shape));
  return {};
}

// The number of steps from start towards limit, exclusive.
DimExpr RangeLength(const DimExpr& start, const DimExpr& limit, const DimExpr& delta) {
  if (!delta.is_constant() || delta.Is(0)) return DimExpr::Unknown();
  const bool up = *delta.constant() > 0;
  const DimExpr distance = up ? limit - start : start - limit;
  return DimExpr::Max(0, DimExpr::CeilDiv(distance, up ? delta : DimExpr(0) - delta));
}

Status InferRange(InferenceContext& context) {
  for (int i = 0; i < 3; ++i) LAMINA_RETURN_IF_ERROR(context.CheckRank(i, 0, 1));
  const std::vector<DimExpr>* start = context.InputElements(0);
  const std::vector<DimExpr>* limit = context.InputElements(1);
  const std::vector<DimExpr>* delta = context.InputElements(2);
  DimExpr length = DimExpr::Unknown();
  const auto is_one = [](const std::vector<DimExpr>* elements) {
    return elements != nullptr && elements->size() == 1;
  };
  if (is_one(start) && is_one(limit) && is_one(delta)) {
    length = RangeLength((*start)[0], (*limit)[0], (*delta)[0]);
    if (length.is_constant() && *length.constant() <= kMaxSymbolicElements) {
      std::vector<DimExpr> elements;
      for (int64_t i = 0; i < *length.constant(); ++i) elements.push_back((*start)[0] + (*delta)[0] * i);
      context.SetOutputElements(0, std::move(elements));
    }
  } else {
    const auto first = context.InputDoubles(0);
    const auto last = context.InputDoubles(1);
    const auto step = context.InputDoubles(2);
    if (first && last && step && first->size() == 1 && last->size() == 1 && step->size() == 1) {
      const double steps = std::ceil(((*last)[0] - (*first)[0]) / (*step)[0]);
      if (steps < 1e15) length = static_cast<int64_t>(std::max(steps, 0.0));
    }
  }
  context.SetOutputShape(0, {{length}});
  return {};
}

// `dtype`, else the default.
Status SetOutputFromDtype(InferenceContext& context, DataType default_type) {
  if (!context.HasAttribute("dtype")) {
    context.SetOutputElement(0, default_type);
    return {};
  }
  LAMINA_ASSIGN_OR_RETURN(const DataType type, DataTypeFromNumber(context, context.Int("dtype", 0)));
  context.SetOutputElement(0, type);
  return {};
}

Status InferLike(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(SetOutputFromDtype(context, context.InputElement(0)));
  return InferSameShape(context);
}

Status InferEyeLike(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  return InferLike(context);
}

Status InferRandom(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(SetOutputFromDtype(context, DataType::kFloat));
  context.Require("shape");
  SymbolicShape shape;
  if (const std::vector<int64_t>* dims = context.Ints("shape")) {
    for (const int64_t dim : *dims) shape.dims.emplace_back(dim);
  }
  context.SetOutputShape(0, std::move(shape));
  return {};
}

Status InferMultinomial(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2));
  LAMINA_RETURN_IF_ERROR(SetOutputFromDtype(context, DataType::kInt32));
  const SymbolicShape* shape = context.InputShape(0);
  context.SetOutputShape(
      0, {{shape != nullptr ? shape->dims[0] : DimExpr::Unknown(), context.Int("sample_size", 1)}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"Bernoulli", 15, "T1 -> T2 | T1=float", InferLike},
    {"Constant", 1, "-> T", InferConstant},
    {"ConstantOfShape", 9, "i64 -> T", InferConstantOfShape},
    {"EyeLike", 9, "T1 -> T2", InferEyeLike},
    {"Multinomial", 7, "T -> I | T=float I=i32,i64", InferMultinomial},
    {"RandomNormal", 1, "-> T | T=float", InferRandom},
    {"RandomNormalLike", 1, "T1 -> T2 | T2=float", InferLike},
    {"RandomUniform", 1, "-> T | T=float", InferRandom},
    {"RandomUniformLike", 1, "T1 -> T2 | T2=float", InferLike},
    {"Range", 11, "T T T -> T | T=numeric", InferRange},
};

}  // namespace

std::span<const OperatorEntry> GeneratorOperators() { return kOperators; }

}  // namespace lamina
