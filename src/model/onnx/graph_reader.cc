#include "model/onnx/graph_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/onnx/attribute_reader.h"
#include "model/onnx/opset_reader.h"
#include "model/onnx/tensor_reader.h"
#include "model/onnx/type_reader.h"
#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

struct NodeFields {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;
  std::string_view overload;
  std::string_view doc_string;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<ProtoReader> attributes;
  std::vector<ProtoReader> metadata_props;
};

NodeFields ReadNodeFields(ProtoReader node) {
  NodeFields fields;
  while (node.Next()) {
    switch (node.field()) {
      case NodeProto::kInput:
        fields.inputs.push_back(node.Text());
        break;
      case NodeProto::kOutput:
        fields.outputs.push_back(node.Text());
        break;
      case NodeProto::kName:
        fields.name = node.Text();
        break;
      case NodeProto::kOpType:
        fields.op_type = node.Text();
        break;
      case NodeProto::kDomain:
        fields.domain = node.Text();
        break;
      case NodeProto::kOverload:
        fields.overload = node.Text();
        break;
      case NodeProto::kDocString:
        fields.doc_string = node.Text();
        break;
      case NodeProto::kAttribute:
        fields.attributes.push_back(node.Message());
        break;
      case NodeProto::kMetadataProps:
        fields.metadata_props.push_back(node.Message());
        break;
      default:
        break;
    }
  }
  fields.domain = NormalDomain(fields.domain);
  return fields;
}

// "node 'x' (Add)".
std::string Describe(const NodeFields& node) {
  return fmt::format("node '{}' ({})", node.name, node.op_type);
}

// Reads the nodes of one graph or function body.
class NodeReader {
 public:
  NodeReader(const GraphContext& context, Graph& graph) : context_(context), graph_(graph) {}

  // Defines the outputs of a node, and keeps its name from being given to another.
  void Declare(ProtoReader message) {
    const NodeFields node = ReadNodeFields(message);
    if (!message.ok()) return;
    if (node.op_type.empty()) return message.Fail("node '{}' has no op_type", node.name);
    if (node.inputs.empty() && node.outputs.empty()) {
      return message.Fail("{} has neither inputs nor outputs", Describe(node));
    }
    for (const std::string_view output : node.outputs) {
      if (output.empty()) continue;
      if (graph_.FindValue(output).valid()) {
        return message.Fail("{}: output '{}' is defined more than once", Describe(node), output);
      }
      graph_.MakeValue(output);
    }
    if (!node.name.empty()) names_in_file_.insert(graph_.names().Intern(node.name));
  }

  void Add(ProtoReader message) {
    const NodeFields node = ReadNodeFields(message);
    std::vector<ValueId> inputs;
    for (const std::string_view input : node.inputs) {
      inputs.push_back(input.empty() ? ValueId() : graph_.ResolveName(input));
      if (!input.empty() && !inputs.back().valid()) {
        return message.Fail("{}: input {} '{}' is not an input, an initializer or an output of a node",
                            Describe(node), inputs.size() - 1, input);
      }
    }
    std::vector<ValueId> outputs;
    for (const std::string_view output : node.outputs) outputs.push_back(graph_.FindValue(output));

    std::vector<Attribute> attributes;
    for (const ProtoReader& attribute : node.attributes) {
      attributes.push_back(ReadAttribute(attribute, context_, graph_));
      if (!message.ok()) return;
    }
    if (const Name repeated = RepeatedName(attributes); !repeated.empty()) {
      return message.Fail("{}: attribute '{}' appears twice", Describe(node), repeated.view());
    }
    MetadataProps metadata_props;
    for (const ProtoReader& entry : node.metadata_props) ReadMetadataEntry(entry, metadata_props);
    const int since_version = OpsetVersion(node, message);
    if (!message.ok()) return;

    const std::string name = node.name.empty() ? NameFor(node.op_type) : std::string(node.name);
    const NodeId id = graph_.AddNode(name, node.op_type, node.domain, since_version, std::move(inputs),
                                     std::move(outputs), std::move(attributes), std::move(metadata_props));
    Node& added = graph_.mutable_node(id);
    added.overload = graph_.names().Intern(node.overload);
    added.doc_string = node.doc_string;
  }

 private:
  int OpsetVersion(const NodeFields& node, ProtoReader& message) const {
    const auto found = context_.opset_imports->find(std::string(node.domain));
    if (found != context_.opset_imports->end()) return found->second;
    // Other runtimes take the first version of domains that are used without an import.
    if (!node.domain.empty()) return 1;
    message.Fail("{} is of the domain ai.onnx, of which no opset version is imported", Describe(node));
    return 0;
  }

  // OP_INDEX, which no other node of the file has as its name.
  std::string NameFor(std::string_view op_type) {
    std::string name;
    int index = static_cast<int>(graph_.nodes().size());
    do {
      name = fmt::format("{}_{}", op_type, index++);
    } while (names_in_file_.contains(graph_.names().Find(name)));
    return name;
  }

  static Name RepeatedName(const std::vector<Attribute>& attributes) {
    std::vector<Name> names;
    for (const Attribute& attribute : attributes) names.push_back(attribute.name);
    std::sort(names.begin(), names.end(), [](Name a, Name b) { return a.view() < b.view(); });
    const auto repeated = std::adjacent_find(names.begin(), names.end());
    return repeated != names.end() ? *repeated : Name();
  }

  const GraphContext& context_;
  Graph& graph_;
  std::unordered_set<Name> names_in_file_;
};

// Before IR 4 every initializer had to be an input too; such inputs are constants.
std::unordered_set<Name> InputsThatAreConstants(ProtoReader message, const GraphContext& context,
                                                NamePool& names) {
  std::unordered_set<Name> constants;
  if (context.ir_version >= 4) return constants;
  while (message.Next(GraphProto::kInitializer)) {
    ProtoReader tensor = message.Message();
    while (tensor.Next(TensorProto::kName)) constants.insert(names.Intern(tensor.Text()));
  }
  return constants;
}

void ReadInputs(ProtoReader message, const GraphContext& context, Graph& graph) {
  const std::unordered_set<Name> constants = InputsThatAreConstants(message, context, graph.names());
  while (message.Next(GraphProto::kInput)) {
    ValueInfoFields input = ReadValueInfo(message.Message());
    if (!message.ok()) return;
    if (input.name.empty()) return message.Fail("graph '{}': an input has no name", graph.name());
    if (graph.FindValue(input.name).valid()) {
      return message.Fail("graph '{}': input '{}' is defined more than once", graph.name(), input.name);
    }
    const ValueId id = graph.MakeValue(input.name, input.type.type, std::move(input.type.shape));
    graph.mutable_value(id).metadata_props = std::move(input.metadata_props);
    if (!constants.contains(graph.value(id).name)) graph.AddInput(id);
  }
}

void AddInitializer(ProtoReader& message, Initializer initializer, Graph& graph) {
  if (!message.ok()) return;
  if (initializer.name.empty()) return message.Fail("graph '{}': an initializer has no name", graph.name());
  ValueId id = graph.FindValue(initializer.name);
  if (!id.valid()) id = graph.MakeValue(initializer.name);
  const ValueInfo& value = graph.value(id);
  if (value.initializer.valid()) {
    return message.Fail("graph '{}': initializer '{}' is defined more than once", graph.name(),
                        initializer.name.view());
  }
  if (value.type.kind != ValueKind::kUndefined && value.type != ValueType::Tensor(initializer.type)) {
    return message.Fail("graph '{}': input '{}' is {}, but its initializer is {}", graph.name(),
                        initializer.name.view(), value.type.ToString(), DataTypeName(initializer.type));
  }
  graph.AddInitializer(id, std::move(initializer));
}

void ReadInitializers(ProtoReader message, Graph& graph) {
  while (message.Next()) {
    if (message.field() == GraphProto::kInitializer) {
      AddInitializer(message, ReadTensor(message.Message(), graph.names()), graph);
    } else if (message.field() == GraphProto::kSparseInitializer) {
      const auto sparse = ReadSparseTensor(message.Message(), graph.names());
      if (!sparse) return;
      AddInitializer(message, {sparse->values.name, sparse->values.type, sparse->shape, sparse}, graph);
    }
  }
}

void SetType(TypeAndShape type, ValueInfo& value) {
  // What is known from an initializer is exact.
  if (value.initializer.valid() || type.type.kind == ValueKind::kUndefined) return;
  value.type = type.type;
  if (type.shape) value.shape = std::move(type.shape);
}

void ReadOutputs(ProtoReader message, Graph& graph) {
  while (message.Next(GraphProto::kOutput)) {
    ValueInfoFields output = ReadValueInfo(message.Message());
    if (!message.ok()) return;
    const ValueId id = output.name.empty() ? ValueId() : graph.ResolveName(output.name);
    if (!id.valid()) {
      return message.Fail("graph '{}': output '{}' is not produced by anything", graph.name(), output.name);
    }
    ValueInfo& value = graph.mutable_value(id);
    if (!value.is_graph_input) SetType(std::move(output.type), value);
    if (value.metadata_props.empty()) value.metadata_props = std::move(output.metadata_props);
    graph.AddOutput(id);
  }
}

void ReadValueInfos(ProtoReader message, uint32_t value_info_field, Graph& graph) {
  while (message.Next(value_info_field)) {
    ValueInfoFields info = ReadValueInfo(message.Message());
    // Tools that remove nodes leave the types of their values behind.
    const ValueId id = message.ok() ? graph.FindValue(info.name) : ValueId();
    if (!id.valid()) continue;
    ValueInfo& value = graph.mutable_value(id);
    if (!value.is_graph_input) SetType(std::move(info.type), value);
    if (value.metadata_props.empty()) value.metadata_props = std::move(info.metadata_props);
  }
}

}  // namespace

void ReadNodes(ProtoReader message, NodeListFields fields, const GraphContext& context, Graph& graph) {
  NodeReader reader(context, graph);
  for (ProtoReader nodes = message; nodes.Next(fields.node);) reader.Declare(nodes.Message());
  ReadValueInfos(message, fields.value_info, graph);
  for (ProtoReader nodes = message; nodes.Next(fields.node);) reader.Add(nodes.Message());
}

void CheckAcyclic(const Graph& graph, ProtoReader& message) {
  if (!message.ok()) return;
  const Result<std::vector<NodeId>> order = graph.TopologicalOrder();
  if (!order.ok()) message.Fail("{}", order.status().message());
}

void ReadGraph(ProtoReader message, const GraphContext& context, Graph& graph) {
  for (ProtoReader fields = message; fields.Next();) {
    switch (fields.field()) {
      case GraphProto::kName:
        graph.set_name(std::string(fields.Text()));
        break;
      case GraphProto::kDocString:
        graph.set_doc_string(std::string(fields.Text()));
        break;
      case GraphProto::kMetadataProps:
        ReadMetadataEntry(fields.Message(), graph.metadata_props());
        break;
      default:
        break;
    }
  }
  ReadInputs(message, context, graph);
  ReadInitializers(message, graph);
  ReadNodes(message, {GraphProto::kNode, GraphProto::kValueInfo}, context, graph);
  ReadOutputs(message, graph);
  CheckAcyclic(graph, message);
}

}  // namespace lamina::onnx
