#include "rewrite/graph_editor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/half.h"

namespace lamina {
namespace {

template <typename T>
const T* AttributeAs(const Node& node, std::string_view name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute ? std::get_if<T>(&attribute->value) : nullptr;
}

// Mapped constants may be misaligned.
template <typename T>
T ElementAt(const Tensor& tensor, int64_t index) {
  T element;
  std::memcpy(&element, static_cast<const std::byte*>(tensor.raw_data()) + index * int64_t{sizeof(T)},
              sizeof(T));
  return element;
}

}  // namespace

// --- Questions ---

int GraphEditor::Opset(std::string_view domain) const {
  const auto& imports = environment_.model->opset_imports;
  const auto found = imports.find(std::string(domain));
  return found == imports.end() ? 0 : found->second;
}

bool GraphEditor::Is(NodeId id, std::string_view op_type, std::string_view domain) const {
  return id.valid() && node(id).op_type == op_type && node(id).domain.view() == domain;
}

ValueId GraphEditor::Input(NodeId id, size_t index) const {
  return index < node(id).inputs.size() ? node(id).inputs[index] : ValueId();
}

ValueId GraphEditor::Output(NodeId id, size_t index) const {
  return index < node(id).outputs.size() ? node(id).outputs[index] : ValueId();
}

DataType GraphEditor::Type(ValueId id) const {
  return id.valid() && value(id).type.is_tensor() ? value(id).type.element : DataType::kUndefined;
}

const SymbolicShape* GraphEditor::ShapeOf(ValueId id) const {
  return id.valid() && value(id).shape ? &*value(id).shape : nullptr;
}

bool GraphEditor::SameShape(ValueId a, ValueId b) const {
  const SymbolicShape* left = ShapeOf(a);
  const SymbolicShape* right = ShapeOf(b);
  if (!left || !right || left->rank() != right->rank()) return false;
  for (size_t i = 0; i < left->dims.size(); ++i) {
    if (!left->dims[i].known() || !(left->dims[i] == right->dims[i])) return false;
  }
  return true;
}

DimExpr GraphEditor::Dim(ValueId id, int axis) const {
  const SymbolicShape* shape = ShapeOf(id);
  if (!shape) return DimExpr::Unknown();
  if (axis < 0) axis += shape->rank();
  if (axis < 0 || axis >= shape->rank()) return DimExpr::Unknown();
  return shape->dims[static_cast<size_t>(axis)];
}

DerivedTensorPtr GraphEditor::ExpressionOf(ValueId id) const {
  const Initializer* initializer = id.valid() ? graph_.ConstantOf(id) : nullptr;
  return initializer ? environment_.model->derived->ExpressionOf(*initializer) : nullptr;
}

std::optional<Tensor> GraphEditor::SmallConstant(ValueId id) const {
  if (!id.valid()) return {};
  const Initializer* initializer = graph_.ConstantOf(id);
  if (!initializer || initializer->size_bytes() > kMaxInferenceConstantBytes) return {};
  if (!initializer->is_external()) return initializer->InMemory();
  if (!environment_.read_external) return {};
  Result<Tensor> tensor = environment_.read_external(*initializer);
  if (!tensor.ok()) return {};
  return *std::move(tensor);
}

std::optional<double> GraphEditor::Scalar(ValueId id) const {
  const std::optional<Tensor> tensor = SmallConstant(id);
  if (!tensor || tensor->num_elements() != 1) return {};
  switch (tensor->type()) {
    case DataType::kFloat:
      return ElementAt<float>(*tensor, 0);
    case DataType::kDouble:
      return ElementAt<double>(*tensor, 0);
    case DataType::kFloat16:
      return static_cast<float>(ElementAt<Float16>(*tensor, 0));
    case DataType::kBfloat16:
      return static_cast<float>(ElementAt<Bfloat16>(*tensor, 0));
    case DataType::kInt64:
      return static_cast<double>(ElementAt<int64_t>(*tensor, 0));
    case DataType::kInt32:
      return ElementAt<int32_t>(*tensor, 0);
    case DataType::kInt8:
      return ElementAt<int8_t>(*tensor, 0);
    case DataType::kUint8:
      return ElementAt<uint8_t>(*tensor, 0);
    default:
      return {};
  }
}

std::optional<std::vector<int64_t>> GraphEditor::Integers(ValueId id) const {
  const std::optional<Tensor> tensor = SmallConstant(id);
  if (!tensor || (tensor->type() != DataType::kInt64 && tensor->type() != DataType::kInt32)) return {};
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    integers.push_back(tensor->type() == DataType::kInt64 ? ElementAt<int64_t>(*tensor, i)
                                                          : ElementAt<int32_t>(*tensor, i));
  }
  return integers;
}

SymbolicElements GraphEditor::Elements(ValueId id) const {
  if (!id.valid() || !environment_.known_elements) return nullptr;
  const auto of_graph = environment_.known_elements->find(&graph_);
  if (of_graph == environment_.known_elements->end()) return nullptr;
  const auto found = of_graph->second.find(id.index);
  return found == of_graph->second.end() ? nullptr : found->second;
}

bool GraphEditor::OnlyUsedBy(ValueId id, NodeId user) const {
  const ValueInfo& info = value(id);
  return !info.is_graph_output && std::all_of(info.uses.begin(), info.uses.end(), [&](const Use& use) {
    return use.node == user && use.input_index != Use::kCapture;
  });
}

bool GraphEditor::IsUnused(ValueId id) const {
  return !id.valid() || (value(id).uses.empty() && !value(id).is_graph_output);
}

int64_t GraphEditor::Int(NodeId id, std::string_view attribute, int64_t default_value) const {
  const auto* found = AttributeAs<int64_t>(node(id), attribute);
  return found ? *found : default_value;
}

float GraphEditor::Float(NodeId id, std::string_view attribute, float default_value) const {
  const auto* found = AttributeAs<float>(node(id), attribute);
  return found ? *found : default_value;
}

std::optional<std::vector<int64_t>> GraphEditor::Ints(NodeId id, std::string_view attribute) const {
  const auto* found = AttributeAs<std::vector<int64_t>>(node(id), attribute);
  return found ? std::optional(*found) : std::nullopt;
}

std::string_view GraphEditor::String(NodeId id, std::string_view attribute,
                                     std::string_view default_value) const {
  const auto* found = AttributeAs<std::string>(node(id), attribute);
  return found ? std::string_view(*found) : default_value;
}

bool GraphEditor::OnOneProvider(std::span<const NodeId> nodes) const {
  const NodeAssignment* assignment = environment_.assignment;
  return !assignment || std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return assignment->ProviderOf(graph_, id) == assignment->ProviderOf(graph_, nodes.front());
  });
}

Attribute GraphEditor::MakeAttribute(std::string_view name, AttributeValue value) const {
  return {graph_.names().Intern(name), std::move(value), {}, AttributeType::kUndefined};
}

// --- Edits ---

int GraphEditor::VersionOf(const NodeSpec& spec) const {
  const int imported = Opset(spec.domain);
  return imported > 0 ? imported : 1;
}

void GraphEditor::ImportDomain(std::string_view domain) {
  environment_.model->opset_imports.emplace(domain, 1);
}

NodeId GraphEditor::Add(NodeId root, std::string_view suffix, NodeSpec spec, std::vector<ValueId> outputs) {
  ImportDomain(spec.domain);
  const Node& original = node(root);
  std::string name = original.name.str();
  // Replacements of replacements do not pile up suffixes.
  if (!name.ends_with("/" + std::string(suffix))) name += "/" + std::string(suffix);
  const NodeId made =
      graph_.AddNode(name, spec.op_type, spec.domain, VersionOf(spec), std::move(spec.inputs),
                     std::move(outputs), std::move(spec.attributes), MetadataProps(original.metadata_props));
  if (environment_.assignment) environment_.assignment->Inherit(graph_, made, root);
  return made;
}

NodeId GraphEditor::Replace(NodeId root, std::string_view suffix, NodeSpec spec) {
  std::vector<ValueId> outputs = node(root).outputs;
  return Replace(root, suffix, std::move(spec), std::move(outputs));
}

NodeId GraphEditor::Replace(NodeId root, std::string_view suffix, NodeSpec spec,
                            std::vector<ValueId> outputs) {
  // The outputs can have one producer only: they leave the original before the replacement takes them.
  for (const ValueId output : outputs) {
    if (!output.valid() || !value(output).producer.valid()) continue;
    Node& producer = graph_.mutable_node(value(output).producer);
    std::replace(producer.outputs.begin(), producer.outputs.end(), output, ValueId());
    graph_.mutable_value(output).producer = NodeId();
  }
  const NodeId made = Add(root, suffix, std::move(spec), std::move(outputs));
  RemoveIfUnused(root);
  return made;
}

ValueId GraphEditor::AddNode(NodeId root, std::string_view suffix, NodeSpec spec, ValueType type,
                             std::optional<SymbolicShape> shape) {
  const std::string base = node(root).name.str() + "/" + std::string(suffix) + "_output";
  const ValueId output = graph_.MakeValue(graph_.GenerateValueName(base), type, std::move(shape));
  Add(root, suffix, std::move(spec), {output});
  return output;
}

ValueId GraphEditor::AddConstant(std::string_view base, Initializer initializer) {
  const ValueId id = graph_.MakeValue(graph_.GenerateValueName(base), ValueType::Tensor(initializer.type));
  graph_.AddInitializer(id, std::move(initializer));
  return id;
}

ValueId GraphEditor::AddConstant(std::string_view base, Tensor tensor) {
  Initializer initializer;
  initializer.type = tensor.type();
  initializer.shape = tensor.shape();
  initializer.source = std::move(tensor);
  return AddConstant(base, std::move(initializer));
}

ValueId GraphEditor::AddDerived(std::string_view base, DerivedTensorPtr expression) {
  const ValueId id = graph_.MakeValue(graph_.GenerateValueName(base), ValueType::Tensor(expression->type));
  const std::string name = value(id).name.str();
  graph_.AddInitializer(id, environment_.model->derived->Add(name, std::move(expression)));
  return id;
}

bool GraphEditor::MakeDerived(NodeId root, DerivedTensorPtr expression) {
  const ValueId output = Output(root);
  if (!output.valid() || value(output).is_graph_output) return false;
  const std::string name = value(output).name.str();
  return MakeConstant(root, environment_.model->derived->Add(name, std::move(expression)));
}

ValueId GraphEditor::AddIntegers(std::string_view base, std::span<const int64_t> values) {
  Result<Tensor> tensor =
      Tensor::FromValues<int64_t>(DataType::kInt64, Shape{static_cast<int64_t>(values.size())}, values);
  return tensor.ok() ? AddConstant(base, *std::move(tensor)) : ValueId();
}

void GraphEditor::SetInput(NodeId root, int index, ValueId value_id) {
  const ValueId old_value = Input(root, static_cast<size_t>(index));
  graph_.SetInput(root, index, value_id);
  const NodeId producer = Producer(old_value);
  if (producer.valid()) RemoveIfUnused(producer);
}

bool GraphEditor::Bypass(NodeId root, ValueId to) {
  const ValueId from = Output(root);
  if (!from.valid() || !to.valid() || from == to) return false;
  for (size_t i = 1; i < node(root).outputs.size(); ++i) {
    if (!IsUnused(node(root).outputs[i])) return false;
  }
  const bool to_has_producer = value(to).producer.valid();
  if (value(from).is_graph_output && (!to_has_producer || value(to).is_graph_output)) return false;
  graph_.ReplaceUses(from, to);
  RemoveIfUnused(root);
  return true;
}

bool GraphEditor::MakeConstant(NodeId root, Initializer initializer) {
  const ValueId output = Output(root);
  if (node(root).outputs.size() != 1 || !output.valid() || value(output).is_graph_output) return false;
  graph_.mutable_node(root).outputs[0] = ValueId();
  graph_.mutable_value(output).producer = NodeId();
  graph_.AddInitializer(output, std::move(initializer));
  RemoveIfUnused(root);
  return true;
}

void GraphEditor::RemoveIfUnused(NodeId id) {
  const Node& candidate = node(id);
  if (!candidate.alive) return;
  if (std::all_of(candidate.outputs.begin(), candidate.outputs.end(),
                  [this](ValueId output) { return IsUnused(output); })) {
    RemoveWithServants(id);
  }
}

void GraphEditor::RemoveWithServants(NodeId id) {
  std::vector<NodeId> pending = {id};
  while (!pending.empty()) {
    const NodeId next = pending.back();
    pending.pop_back();
    const Node& candidate = node(next);
    const bool unused = candidate.alive && std::all_of(candidate.outputs.begin(), candidate.outputs.end(),
                                                       [this](ValueId output) { return IsUnused(output); });
    if (!unused) continue;
    std::vector<ValueId> read = candidate.inputs;
    for (const Graph* subgraph : candidate.Subgraphs()) {
      for (const ValueInfo& captured : subgraph->values()) {
        if (captured.outer.valid()) read.push_back(captured.outer);
      }
    }
    graph_.RemoveNode(next);
    for (const ValueId input : read) {
      const NodeId producer = Producer(input);
      if (producer.valid()) pending.push_back(producer);
    }
  }
}

}  // namespace lamina
