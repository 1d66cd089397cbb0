// Sequences and optionals.
//
// The shape kept for a sequence is that of its tensors: constants where all of them agree, unknown elsewhere
// (elements may differ, so a symbol would say too much).
#include "model/shape_inference/sequence.h"

#include <algorithm>

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

ValueType ElementOf(const ValueType& sequence) {
  ValueType element = sequence;
  element.kind = sequence.inner;
  element.inner = ValueKind::kUndefined;
  return element;
}

ValueType OptionalOf(const ValueType& type) {
  ValueType optional = type;
  optional.kind = ValueKind::kOptional;
  optional.inner = type.kind;
  return optional;
}

std::optional<SymbolicShape> ConstantPart(const SymbolicShape* shape) {
  if (shape == nullptr) return std::nullopt;
  SymbolicShape constants = *shape;
  for (DimExpr& dim : constants.dims) {
    if (!dim.is_constant()) dim = DimExpr::Unknown();
  }
  return constants;
}

Status InferSequenceAt(InferenceContext& context) {
  context.SetOutputType(0, ElementOf(context.InputType(0)));
  if (auto shape = ConstantPart(context.InputShape(0))) context.SetOutputShape(0, *std::move(shape));
  return {};
}

Status InferSequenceConstruct(InferenceContext& context) {
  context.SetOutputType(0, ValueType::SequenceOf(context.InputElement(0)));
  std::optional<SymbolicShape> shape = ConstantPart(context.InputShape(0));
  for (int i = 1; i < context.num_inputs() && shape; ++i) {
    shape = CommonElementShape(shape, ConstantPart(context.InputShape(i)));
  }
  if (shape) context.SetOutputShape(0, *std::move(shape));
  return {};
}

Status InferSequenceEmpty(InferenceContext& context) {
  LAMINA_ASSIGN_OR_RETURN(
      const DataType type,
      DataTypeFromNumber(context, context.Int("dtype", static_cast<int64_t>(DataType::kFloat))));
  context.SetOutputType(0, ValueType::SequenceOf(type));
  return {};
}

// An empty sequence has no shape: what is inserted first is not compared with it.
Status InferSequenceInsert(InferenceContext& context) {
  const ValueType& sequence = context.InputType(0);
  const ValueType& tensor = context.InputType(1);
  if (sequence.element != DataType::kUndefined && tensor.element != DataType::kUndefined &&
      sequence.element != tensor.element) {
    return context.Error("input 1: expected an element of {}, found {}", sequence.ToString(),
                         tensor.ToString());
  }
  auto shape = CommonElementShape(ConstantPart(context.InputShape(0)), ConstantPart(context.InputShape(1)));
  if (shape) context.SetOutputShape(0, *std::move(shape));
  return {};
}

Status InferSequenceErase(InferenceContext& context) {
  context.SetOutputType(0, context.InputType(0));
  if (const SymbolicShape* shape = context.InputShape(0)) context.SetOutputShape(0, *shape);
  return {};
}

Status InferSequenceLength(InferenceContext& context) {
  context.SetOutputShape(0, {});
  return {};
}

Status InferSplitToSequence(InferenceContext& context) {
  context.SetOutputType(0, ValueType::SequenceOf(context.InputElement(0)));
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 0), input->rank()));
  SymbolicShape part = *ConstantPart(input);
  const auto at = static_cast<size_t>(axis);
  if (context.HasInput(1)) {
    const auto split = context.InputInts(1);
    const bool scalar = context.InputShape(1) != nullptr && context.InputShape(1)->rank() == 0;
    const DimExpr length = input->dims[at];
    part.dims[at] = DimExpr::Unknown();
    if (split && scalar && length.is_constant() && (*split)[0] > 0 && *length.constant() % (*split)[0] == 0) {
      part.dims[at] = (*split)[0];
    } else if (split && !scalar && !split->empty() &&
               std::all_of(split->begin(), split->end(), [&](int64_t size) { return size == (*split)[0]; })) {
      part.dims[at] = (*split)[0];
    }
  } else if (context.Int("keepdims", 1) != 0) {
    part.dims[at] = 1;
  } else {
    part.dims.erase(part.dims.begin() + axis);
  }
  context.SetOutputShape(0, std::move(part));
  return {};
}

Status InferConcatFromSequence(InferenceContext& context) {
  context.SetOutputElement(0, context.InputElement(0));
  context.Require("axis");
  auto shape = ConstantPart(context.InputShape(0));
  if (!shape) return {};
  const bool new_axis = context.Int("new_axis", 0) != 0;
  LAMINA_ASSIGN_OR_RETURN(const int axis,
                          context.Axis(context.Int("axis", 0), shape->rank() + (new_axis ? 1 : 0)));
  if (new_axis) {
    shape->dims.insert(shape->dims.begin() + axis, DimExpr::Unknown());
  } else {
    shape->dims[static_cast<size_t>(axis)] = DimExpr::Unknown();
  }
  context.SetOutputShape(0, *std::move(shape));
  return {};
}

// The body maps one element of each input sequence (tensors are passed whole) to one of each output.
Status InferSequenceMap(InferenceContext& context) {
  context.Require("body");
  Graph* body = context.Subgraph("body");
  if (body == nullptr) return {};
  std::vector<InferredValue> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) {
    InferredValue input = context.Input(i);
    if (input.type.kind == ValueKind::kSequence) {
      input.type = ElementOf(input.type);
      input.shape = ConstantPart(input.shape ? &*input.shape : nullptr);
    }
    inputs.push_back(std::move(input));
  }
  LAMINA_ASSIGN_OR_RETURN(const std::vector<InferredValue> results, context.InferBody(*body, inputs));
  if (static_cast<int>(results.size()) != context.num_outputs()) {
    return context.Error("the body has {} outputs, the node {}", results.size(), context.num_outputs());
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    const InferredValue& result = results[static_cast<size_t>(i)];
    context.SetOutputType(i, ValueType::SequenceOf(result.type.element));
    if (auto shape = ConstantPart(result.shape ? &*result.shape : nullptr)) {
      context.SetOutputShape(i, *std::move(shape));
    }
  }
  return {};
}

Status InferOptional(InferenceContext& context) {
  if (context.HasInput(0)) {
    if (context.InputType(0).kind == ValueKind::kUndefined) return {};
    context.SetOutputType(0, OptionalOf(context.InputType(0)));
    if (const SymbolicShape* shape = context.InputShape(0)) context.SetOutputShape(0, *shape);
    return {};
  }
  const TypeAndShape* type = context.TypeAttribute("type");
  if (type == nullptr) return context.Error("without input the attribute 'type' is required");
  context.SetOutputType(0, OptionalOf(type->type));
  if (type->shape) context.SetOutputShape(0, *type->shape);
  return {};
}

Status InferOptionalHasElement(InferenceContext& context) {
  context.SetOutputShape(0, {});
  const ValueType& type = context.InputType(0);
  if (!context.HasInput(0)) {
    context.SetOutputElements(0, std::vector<DimExpr>{0});
  } else if (type.kind != ValueKind::kUndefined && type.kind != ValueKind::kOptional) {
    context.SetOutputElements(0, std::vector<DimExpr>{1});
  }
  return {};
}

// A tensor or sequence that is no optional passes through.
Status InferOptionalGetElement(InferenceContext& context) {
  const ValueType& type = context.InputType(0);
  if (type.kind != ValueKind::kOptional) return InferIdentity(context);
  ValueType element = ElementOf(type);
  if (element.kind == ValueKind::kSequence) element.inner = ValueKind::kTensor;
  context.SetOutputType(0, element);
  if (const SymbolicShape* shape = context.InputShape(0)) context.SetOutputShape(0, *shape);
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"ConcatFromSequence", 11, "S -> T | S=seq", InferConcatFromSequence},
    {"Optional", 15, "V? -> O | V=any,seq O=opt", InferOptional},
    {"OptionalGetElement", 15, "V -> O | V=any,seq,opt O=value", InferOptionalGetElement},
    {"OptionalHasElement", 15, "V? -> bool | V=any,seq,opt", InferOptionalHasElement},
    {"SequenceAt", 11, "S I -> V | S=seq I=i32,i64 V=value", InferSequenceAt},
    {"SequenceConstruct", 11, "T+ -> S | S=seq", InferSequenceConstruct},
    {"SequenceEmpty", 11, "-> S | S=seq", InferSequenceEmpty},
    {"SequenceErase", 11, "S I? -> S | S=seq I=i32,i64", InferSequenceErase},
    {"SequenceInsert", 11, "S T I? -> S | S=seq I=i32,i64", InferSequenceInsert},
    {"SequenceLength", 11, "S -> i64 | S=seq", InferSequenceLength},
    {"SequenceMap", 17, "S V* -> O+ | S=seq V=~any,seq O=~seq", InferSequenceMap},
    {"SplitToSequence", 11, "T I? -> S | I=i32,i64 S=seq", InferSplitToSequence},
};

}  // namespace

std::optional<SymbolicShape> CommonElementShape(const std::optional<SymbolicShape>& a,
                                                const std::optional<SymbolicShape>& b) {
  if (!a || !b || a->rank() != b->rank()) return std::nullopt;
  SymbolicShape common = *a;
  for (size_t i = 0; i < common.dims.size(); ++i) {
    if (common.dims[i] != b->dims[i]) common.dims[i] = DimExpr::Unknown();
  }
  return common;
}

std::span<const OperatorEntry> SequenceOperators() { return kOperators; }

}  // namespace lamina
