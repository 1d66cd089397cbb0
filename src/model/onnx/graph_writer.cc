#include "model/onnx/graph_writer.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/onnx/tensor_writer.h"
#include "model/onnx/type_writer.h"
#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

using protozero::pbf_writer;

void AddText(uint32_t field, std::string_view text, pbf_writer& message) {
  message.add_string(field, text.data(), text.size());
}

// Text fields that are absent where empty.
void AddOptionalText(uint32_t field, std::string_view text, pbf_writer& message) {
  if (!text.empty()) AddText(field, text, message);
}

// A captured value is written under the name it has where it is defined.
std::string_view NameInFile(const Graph& graph, ValueId id) {
  if (!id.valid()) return {};
  const ValueInfo& value = graph.value(id);
  return value.outer.valid() ? NameInFile(*graph.parent(), value.outer) : value.name.view();
}

Status CheckNothingIsHidden(const Graph& graph) {
  for (const ValueInfo& value : graph.values()) {
    if (!value.outer.valid() || (value.uses.empty() && !value.is_graph_output)) continue;
    const std::string_view name = NameInFile(*graph.parent(), value.outer);
    const ValueId own = graph.FindValue(name);
    if (own.valid() && !graph.value(own).outer.valid()) {
      return UnsupportedError("graph '{}': its value '{}' hides an outer value of that name that it reads",
                              graph.name(), name);
    }
  }
  return {};
}

// What is known of the values that nodes produce, other than graph outputs, which have it with them; and of
// initializers, whose type is known anyway, the metadata.
void WriteValueInfos(const Graph& graph, uint32_t field, bool with_outputs, pbf_writer& message) {
  for (const ValueInfo& value : graph.values()) {
    const bool is_defined_here =
        value.producer.valid() || (value.initializer.valid() && !value.is_graph_input);
    if (!is_defined_here || (value.is_graph_output && !with_outputs)) continue;
    const bool has_type = value.producer.valid() && value.type.kind != ValueKind::kUndefined;
    if (!has_type && value.metadata_props.empty()) continue;
    pbf_writer info(message, field);
    WriteValueInfo(value.name, value, info);
  }
}

void WriteNamedValue(const Graph& graph, ValueId id, uint32_t field, pbf_writer& message) {
  pbf_writer info(message, field);
  WriteValueInfo(NameInFile(graph, id), graph.value(id), info);
}

}  // namespace

void WriteOpsetImports(const std::map<std::string, int>& imports, uint32_t field, pbf_writer& message) {
  for (const auto& [domain, version] : imports) {
    pbf_writer import(message, field);
    AddOptionalText(OperatorSetIdProto::kDomain, domain, import);
    import.add_int64(OperatorSetIdProto::kVersion, version);
  }
}

Status GraphWriter::WriteGraph(const Graph& graph, pbf_writer& message) const {
  LAMINA_RETURN_IF_ERROR(CheckNothingIsHidden(graph));
  LAMINA_RETURN_IF_ERROR(WriteNodes(graph, GraphProto::kNode, message));
  AddText(GraphProto::kName, graph.name(), message);
  LAMINA_RETURN_IF_ERROR(WriteInitializers(graph, message));
  AddOptionalText(GraphProto::kDocString, graph.doc_string(), message);
  for (const ValueId input : graph.inputs()) WriteNamedValue(graph, input, GraphProto::kInput, message);
  if (ir_version_ < 4) {  // such versions want every initializer among the inputs
    for (const ValueInfo& value : graph.values()) {
      if (!value.initializer.valid() || value.is_graph_input) continue;
      pbf_writer info(message, GraphProto::kInput);
      WriteValueInfo(value.name, value, info);
    }
  }
  for (const ValueId output : graph.outputs()) WriteNamedValue(graph, output, GraphProto::kOutput, message);
  WriteValueInfos(graph, GraphProto::kValueInfo, /*with_outputs=*/false, message);
  WriteMetadata(graph.metadata_props(), GraphProto::kMetadataProps, message);
  return {};
}

Status WriteFunction(const LocalFunction& function, int64_t ir_version, pbf_writer& message) {
  const GraphWriter writer(ir_version, function.opset_imports, {});
  const Graph& body = *function.body;
  AddText(FunctionProto::kName, function.name, message);
  for (const ValueId input : body.inputs()) AddText(FunctionProto::kInput, body.value(input).name, message);
  for (const ValueId output : body.outputs())
    AddText(FunctionProto::kOutput, body.value(output).name, message);
  for (const std::string& attribute : function.attributes) {
    AddText(FunctionProto::kAttribute, attribute, message);
  }
  LAMINA_RETURN_IF_ERROR(writer.WriteNodes(body, FunctionProto::kNode, message));
  AddOptionalText(FunctionProto::kDocString, function.doc_string, message);
  WriteOpsetImports(function.opset_imports, FunctionProto::kOpsetImport, message);
  AddOptionalText(FunctionProto::kDomain, function.domain, message);
  for (const Attribute& attribute : function.attribute_defaults) {
    pbf_writer attribute_message(message, FunctionProto::kAttributeProto);
    LAMINA_RETURN_IF_ERROR(writer.WriteAttribute(attribute, attribute_message));
  }
  WriteValueInfos(body, FunctionProto::kValueInfo, /*with_outputs=*/true, message);
  AddOptionalText(FunctionProto::kOverload, function.overload, message);
  WriteMetadata(function.metadata_props, FunctionProto::kMetadataProps, message);
  return {};
}

Status GraphWriter::WriteInitializers(const Graph& graph, pbf_writer& message) const {
  for (const ValueInfo& value : graph.values()) {
    if (!value.initializer.valid()) continue;
    const Initializer& initializer = graph.initializer(value.initializer);
    if (const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&initializer.source)) {
      pbf_writer sparse_message(message, GraphProto::kSparseInitializer);
      WriteSparseTensor(**sparse, value.name, sparse_message);
      continue;
    }
    pbf_writer tensor(message, GraphProto::kInitializer);
    if (placer_) {
      LAMINA_ASSIGN_OR_RETURN(const Initializer placed, placer_(initializer));
      WriteTensor(placed, value.name, tensor);
    } else {
      WriteTensor(initializer, value.name, tensor);
    }
  }
  return {};
}

Status GraphWriter::WriteNodes(const Graph& graph, uint32_t node_field, pbf_writer& message) const {
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.TopologicalOrder());
  for (const NodeId id : order) {
    pbf_writer node(message, node_field);
    LAMINA_RETURN_IF_ERROR(WriteNode(graph, graph.node(id), node));
  }
  return {};
}

Status GraphWriter::WriteNode(const Graph& graph, const Node& node, pbf_writer& message) const {
  const auto import = opset_imports_.find(node.domain.str());
  if (import != opset_imports_.end() && import->second != node.since_version) {
    return UnsupportedError("node '{}' ({}) is of opset version {}, but version {} is imported",
                            node.name.view(), node.op_type.view(), node.since_version, import->second);
  }
  for (const ValueId input : node.inputs) AddText(NodeProto::kInput, NameInFile(graph, input), message);
  for (const ValueId output : node.outputs) AddText(NodeProto::kOutput, NameInFile(graph, output), message);
  AddText(NodeProto::kName, node.name, message);
  AddText(NodeProto::kOpType, node.op_type, message);
  for (const Attribute& attribute : node.attributes) {
    pbf_writer attribute_message(message, NodeProto::kAttribute);
    LAMINA_RETURN_IF_ERROR(WriteAttribute(attribute, attribute_message));
  }
  AddOptionalText(NodeProto::kDocString, node.doc_string, message);
  AddOptionalText(NodeProto::kDomain, node.domain, message);
  AddOptionalText(NodeProto::kOverload, node.overload, message);
  WriteMetadata(node.metadata_props, NodeProto::kMetadataProps, message);
  return {};
}

namespace {

// Writes the value of an attribute; graphs are written by the GraphWriter it was given.
class AttributeValueWriter {
 public:
  AttributeValueWriter(const GraphWriter& graphs, pbf_writer& message) : graphs_(graphs), message_(message) {}

  Status operator()(std::monostate) const { return {}; }
  Status operator()(float value) const {
    message_.add_float(AttributeProto::kF, value);
    return {};
  }
  Status operator()(int64_t value) const {
    message_.add_int64(AttributeProto::kI, value);
    return {};
  }
  Status operator()(const std::string& value) const {
    message_.add_bytes(AttributeProto::kS, value);
    return {};
  }
  Status operator()(const std::shared_ptr<const Initializer>& value) const {
    return WriteTensorIn(AttributeProto::kT, *value);
  }
  Status operator()(const std::shared_ptr<Graph>& value) const {
    return WriteGraphIn(AttributeProto::kG, *value);
  }
  Status operator()(const std::shared_ptr<const SparseTensor>& value) const {
    return WriteSparseIn(AttributeProto::kSparseTensor, *value);
  }
  Status operator()(const TypeAndShape& value) const { return WriteTypeIn(AttributeProto::kTp, value); }
  Status operator()(const std::vector<float>& values) const {
    message_.add_packed_float(AttributeProto::kFloats, values.begin(), values.end());
    return {};
  }
  Status operator()(const std::vector<int64_t>& values) const {
    message_.add_packed_int64(AttributeProto::kInts, values.begin(), values.end());
    return {};
  }
  Status operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) message_.add_bytes(AttributeProto::kStrings, value);
    return {};
  }
  Status operator()(const std::vector<std::shared_ptr<const Initializer>>& values) const {
    for (const auto& value : values) LAMINA_RETURN_IF_ERROR(WriteTensorIn(AttributeProto::kTensors, *value));
    return {};
  }
  Status operator()(const std::vector<std::shared_ptr<Graph>>& values) const {
    for (const auto& value : values) LAMINA_RETURN_IF_ERROR(WriteGraphIn(AttributeProto::kGraphs, *value));
    return {};
  }
  Status operator()(const std::vector<std::shared_ptr<const SparseTensor>>& values) const {
    for (const auto& value : values) {
      LAMINA_RETURN_IF_ERROR(WriteSparseIn(AttributeProto::kSparseTensors, *value));
    }
    return {};
  }
  Status operator()(const std::vector<TypeAndShape>& values) const {
    for (const auto& value : values) LAMINA_RETURN_IF_ERROR(WriteTypeIn(AttributeProto::kTypeProtos, value));
    return {};
  }

 private:
  Status WriteTensorIn(uint32_t field, const Initializer& value) const {
    pbf_writer tensor(message_, field);
    WriteTensor(value, value.name, tensor);
    return {};
  }
  Status WriteSparseIn(uint32_t field, const SparseTensor& value) const {
    pbf_writer sparse(message_, field);
    WriteSparseTensor(value, value.values.name, sparse);
    return {};
  }
  Status WriteTypeIn(uint32_t field, const TypeAndShape& value) const {
    pbf_writer type(message_, field);
    WriteType(value, type);
    return {};
  }
  Status WriteGraphIn(uint32_t field, const Graph& value) const {
    pbf_writer graph(message_, field);
    return graphs_.WriteGraph(value, graph);
  }

  const GraphWriter& graphs_;
  pbf_writer& message_;
};

}  // namespace

Status GraphWriter::WriteAttribute(const Attribute& attribute, pbf_writer& message) const {
  AddText(AttributeProto::kName, attribute.name, message);
  LAMINA_RETURN_IF_ERROR(std::visit(AttributeValueWriter(*this, message), attribute.value));
  message.add_enum(AttributeProto::kType, static_cast<int32_t>(attribute.type()));
  AddOptionalText(AttributeProto::kRefAttrName, attribute.ref_name, message);
  return {};
}

}  // namespace lamina::onnx
