#include "model/shape_inference/inference_context.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/half.h"
#include "model/shape_inference/constant_elements.h"
#include "model/shape_inference/graph_inference.h"

namespace lamina {
namespace {

const ValueType kNoType;

std::string RangeText(int min, int max) {
  if (min == max) return std::to_string(min);
  return max == INT_MAX ? fmt::format("at least {}", min) : fmt::format("{} to {}", min, max);
}

template <typename T>
T LoadElement(const Tensor& tensor, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(tensor.raw_data()) + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

InferenceContext::InferenceContext(GraphInference& graph, NodeId id, const Signature& signature)
    : graph_(graph), node_(graph.graph().node(id)), signature_(signature), outputs_(node_.outputs.size()) {}

Status InferenceContext::MakeError(std::string text) const {
  const std::string_view domain = node_.domain.empty() ? "ai.onnx" : node_.domain.view();
  return InvalidModelError("node '{}' ({}, {} version {}): {}", node_.name.view(), node_.op_type.view(),
                           domain, opset(), text);
}

// --- Inputs ---

const ValueInfo* InferenceContext::InputInfo(int index) const {
  if (index < 0 || index >= num_inputs()) return nullptr;
  const ValueId id = node_.inputs[static_cast<size_t>(index)];
  return id.valid() ? &graph_.value(id) : nullptr;
}

bool InferenceContext::HasInput(int index) const { return InputInfo(index) != nullptr; }

const ValueType& InferenceContext::InputType(int index) const {
  const ValueInfo* info = InputInfo(index);
  return info != nullptr ? info->type : kNoType;
}

const SymbolicShape* InferenceContext::InputShape(int index) const {
  const ValueInfo* info = InputInfo(index);
  return info != nullptr && info->shape ? &*info->shape : nullptr;
}

SymbolicElements InferenceContext::SharedInputElements(int index) const {
  return HasInput(index) ? graph_.ElementsOf(node_.inputs[static_cast<size_t>(index)]) : nullptr;
}

const std::vector<DimExpr>* InferenceContext::InputElements(int index) const {
  return SharedInputElements(index).get();
}

std::optional<std::vector<int64_t>> InferenceContext::InputInts(int index) const {
  const std::vector<DimExpr>* elements = InputElements(index);
  if (elements == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  values.reserve(elements->size());
  for (const DimExpr& element : *elements) {
    if (!element.is_constant()) return std::nullopt;
    values.push_back(*element.constant());
  }
  return values;
}

std::optional<Tensor> InferenceContext::InputConstant(int index) const {
  if (!HasInput(index)) return std::nullopt;
  return graph_.ConstantOf(node_.inputs[static_cast<size_t>(index)]);
}

std::optional<Tensor> InferenceContext::ReadConstant(const Initializer& initializer) const {
  return ReadSmallConstant(initializer, *graph_.state().options);
}

std::optional<std::vector<double>> InferenceContext::InputDoubles(int index) const {
  const std::optional<Tensor> tensor = InputConstant(index);
  if (!tensor) return std::nullopt;
  std::vector<double> values(static_cast<size_t>(tensor->num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (tensor->type()) {
      case DataType::kFloat:
        values[i] = LoadElement<float>(*tensor, i);
        break;
      case DataType::kDouble:
        values[i] = LoadElement<double>(*tensor, i);
        break;
      case DataType::kFloat16:
        values[i] = HalfBitsToFloat(LoadElement<uint16_t>(*tensor, i));
        break;
      case DataType::kBfloat16:
        values[i] = Bfloat16BitsToFloat(LoadElement<uint16_t>(*tensor, i));
        break;
      default:
        return std::nullopt;
    }
  }
  return values;
}

InferredValue InferenceContext::Input(int index) const {
  return HasInput(index) ? graph_.Known(node_.inputs[static_cast<size_t>(index)]) : InferredValue();
}

// --- Attributes ---

template <typename T>
const T* InferenceContext::AttributeAs(std::string_view name, std::string_view expected) {
  const Attribute* attribute = node_.FindAttribute(name);
  if (attribute == nullptr || std::holds_alternative<std::monostate>(attribute->value)) return nullptr;
  const T* value = std::get_if<T>(&attribute->value);
  if (value == nullptr && attribute_status_.ok()) {
    attribute_status_ = Error("attribute '{}': expected {}, found another type", name, expected);
  }
  return value;
}

int64_t InferenceContext::Int(std::string_view name, int64_t default_value) {
  const auto* value = AttributeAs<int64_t>(name, "an integer");
  return value != nullptr ? *value : default_value;
}

float InferenceContext::Float(std::string_view name, float default_value) {
  const auto* value = AttributeAs<float>(name, "a float");
  return value != nullptr ? *value : default_value;
}

std::string_view InferenceContext::String(std::string_view name, std::string_view default_value) {
  const auto* value = AttributeAs<std::string>(name, "a string");
  return value != nullptr ? *value : default_value;
}

const std::vector<int64_t>* InferenceContext::Ints(std::string_view name) {
  return AttributeAs<std::vector<int64_t>>(name, "integers");
}

const std::vector<float>* InferenceContext::Floats(std::string_view name) {
  return AttributeAs<std::vector<float>>(name, "floats");
}

const std::vector<std::string>* InferenceContext::Strings(std::string_view name) {
  return AttributeAs<std::vector<std::string>>(name, "strings");
}

const Initializer* InferenceContext::TensorAttribute(std::string_view name) {
  const auto* value = AttributeAs<std::shared_ptr<const Initializer>>(name, "a tensor");
  return value != nullptr ? value->get() : nullptr;
}

const TypeAndShape* InferenceContext::TypeAttribute(std::string_view name) {
  return AttributeAs<TypeAndShape>(name, "a type");
}

Graph* InferenceContext::Subgraph(std::string_view name) {
  const auto* value = AttributeAs<std::shared_ptr<Graph>>(name, "a graph");
  return value != nullptr ? value->get() : nullptr;
}

void InferenceContext::Require(std::string_view name) {
  if (!HasAttribute(name) && attribute_status_.ok()) {
    attribute_status_ = Error("the attribute '{}' is required", name);
  }
}

int64_t InferenceContext::RequiredInt(std::string_view name) {
  Require(name);
  return Int(name, 0);
}

// --- Outputs ---

bool InferenceContext::HasOutput(int index) const {
  return index < num_outputs() && node_.outputs[static_cast<size_t>(index)].valid();
}

void InferenceContext::SetOutputType(int index, ValueType type) {
  if (HasOutput(index)) outputs_[static_cast<size_t>(index)].type = type;
}

void InferenceContext::SetOutputShape(int index, SymbolicShape shape) {
  if (HasOutput(index)) outputs_[static_cast<size_t>(index)].shape = std::move(shape);
}

void InferenceContext::SetOutputElements(int index, std::vector<DimExpr> elements) {
  if (!HasOutput(index) || static_cast<int64_t>(elements.size()) > kMaxSymbolicElements) return;
  SetOutputElements(index, std::make_shared<const std::vector<DimExpr>>(std::move(elements)));
}

void InferenceContext::SetOutputElements(int index, SymbolicElements elements) {
  if (HasOutput(index)) outputs_[static_cast<size_t>(index)].elements = std::move(elements);
}

void InferenceContext::SetOutput(int index, InferredValue value) {
  if (HasOutput(index)) outputs_[static_cast<size_t>(index)] = std::move(value);
}

DimExpr InferenceContext::FreshDim(int output, int axis) const {
  if (!HasOutput(output)) return DimExpr::Unknown();
  const ValueId id = node_.outputs[static_cast<size_t>(output)];
  return graph_.Learned(DataDependentDim(graph_.value(id).name, axis));
}

// --- Relations ---

Result<DimExpr> InferenceContext::Unify(const DimExpr& a, const DimExpr& b, std::string_view what) {
  if (!a.known() || a == b) return b;
  if (!b.known()) return a;
  if (a.is_constant() && b.is_constant()) {
    return Error("{}: {} and {} must be equal", what, a.ToString(), b.ToString());
  }
  graph_.Learn(a, b);
  if (a.is_constant()) return a;
  if (b.is_constant()) return b;
  return graph_.Learned(a);
}

Result<int> InferenceContext::Axis(int64_t axis, int rank, bool allow_end) const {
  if (axis < -static_cast<int64_t>(rank) || axis >= (allow_end ? rank + 1 : rank)) {
    return Error("axis {} is outside a tensor of rank {}", axis, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Status InferenceContext::CheckRank(int index, int min_rank, int max_rank) const {
  const SymbolicShape* shape = InputShape(index);
  if (shape == nullptr || (shape->rank() >= min_rank && shape->rank() <= max_rank)) return {};
  return Error("input {}: expected a tensor of rank {}, found shape {}", index, RangeText(min_rank, max_rank),
               shape->ToString());
}

Result<std::vector<InferredValue>> InferenceContext::InferBody(Graph& body,
                                                               std::span<const InferredValue> inputs,
                                                               bool certain) {
  GraphInference inference(graph_.state(), body, &graph_, certain);
  LAMINA_RETURN_IF_ERROR(inference.Run(inputs));
  std::vector<InferredValue> outputs;
  for (const ValueId output : body.outputs()) outputs.push_back(inference.Known(output));
  return outputs;
}

bool InferenceContext::MayRepeatBodies() const {
  constexpr int kMaxRepeatedDepth = 3;
  return graph_.depth() < kMaxRepeatedDepth;
}

// --- Signature ---

Status InferenceContext::CheckSignature() {
  if (num_inputs() < signature_.min_inputs || num_inputs() > signature_.max_inputs) {
    return Error("expected {} inputs, found {}", RangeText(signature_.min_inputs, signature_.max_inputs),
                 num_inputs());
  }
  if (num_outputs() < signature_.min_outputs || num_outputs() > signature_.max_outputs) {
    return Error("expected {} outputs, found {}", RangeText(signature_.min_outputs, signature_.max_outputs),
                 num_outputs());
  }
  constexpr int kUnbound = -1;
  std::vector<int> bound_by(signature_.variables.size(), kUnbound);  // the input that gave the type
  for (int i = 0; i < num_inputs(); ++i) {
    const Parameter& parameter = signature_.Input(i);
    if (!HasInput(i)) {
      if (!parameter.optional) return Error("input {} is required", i);
      continue;
    }
    const ValueType& type = InputType(i);
    if (type.kind == ValueKind::kUndefined) continue;
    const TypeVariable& variable = signature_.variables[static_cast<size_t>(parameter.variable)];
    if (!variable.types.Contains(type)) {
      return Error("input {}: expected {}, found {}", i, variable.types.ToString(), type.ToString());
    }
    if (variable.heterogeneous) continue;
    int& binder = bound_by[static_cast<size_t>(parameter.variable)];
    if (binder == kUnbound) {
      binder = i;
    } else if (type != InputType(binder)) {
      return Error("input {}: expected {} like input {}, found {}", i, InputType(binder).ToString(), binder,
                   type.ToString());
    }
  }
  for (int i = 0; i < num_outputs(); ++i) {
    const auto variable = static_cast<size_t>(signature_.Output(i).variable);
    const int binder = bound_by[variable];
    SetOutputType(i, binder != kUnbound ? InputType(binder) : signature_.variables[variable].types.Single());
  }
  return {};
}

}  // namespace lamina
