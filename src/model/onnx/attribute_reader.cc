#include "model/onnx/attribute_reader.h"

#include <utility>

#include "model/onnx/tensor_reader.h"
#include "model/onnx/type_reader.h"
#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

struct AttributeHead {
  std::string_view name;
  std::string_view ref_name;
  AttributeType type = AttributeType::kUndefined;
};

AttributeType TypeOfField(uint32_t field) {
  switch (field) {
    case AttributeProto::kF:
      return AttributeType::kFloat;
    case AttributeProto::kI:
      return AttributeType::kInt;
    case AttributeProto::kS:
      return AttributeType::kString;
    case AttributeProto::kT:
      return AttributeType::kTensor;
    case AttributeProto::kG:
      return AttributeType::kGraph;
    case AttributeProto::kFloats:
      return AttributeType::kFloats;
    case AttributeProto::kInts:
      return AttributeType::kInts;
    case AttributeProto::kStrings:
      return AttributeType::kStrings;
    case AttributeProto::kTensors:
      return AttributeType::kTensors;
    case AttributeProto::kGraphs:
      return AttributeType::kGraphs;
    case AttributeProto::kTp:
      return AttributeType::kTypeProto;
    case AttributeProto::kTypeProtos:
      return AttributeType::kTypeProtos;
    case AttributeProto::kSparseTensor:
      return AttributeType::kSparseTensor;
    case AttributeProto::kSparseTensors:
      return AttributeType::kSparseTensors;
    default:
      return AttributeType::kUndefined;
  }
}

AttributeHead ReadHead(ProtoReader message) {
  AttributeHead head;
  AttributeType type_of_value = AttributeType::kUndefined;
  while (message.Next()) {
    switch (message.field()) {
      case AttributeProto::kName:
        head.name = message.Text();
        break;
      case AttributeProto::kRefAttrName:
        head.ref_name = message.Text();
        break;
      case AttributeProto::kType: {
        const int32_t number = message.Int32();
        if (number < 0 || number > static_cast<int32_t>(AttributeType::kTypeProtos)) {
          message.FailUnsupported("attribute '{}' has the unknown type {}", head.name, number);
        }
        head.type = static_cast<AttributeType>(number);
        break;
      }
      default:
        if (type_of_value == AttributeType::kUndefined) type_of_value = TypeOfField(message.field());
    }
  }
  if (head.type == AttributeType::kUndefined) head.type = type_of_value;
  return head;
}

// An empty value of the type: what an attribute has where the file omits the default (0, "") or an empty
// list.
AttributeValue EmptyValue(AttributeType type) {
  switch (type) {
    case AttributeType::kFloat:
      return 0.0F;
    case AttributeType::kInt:
      return int64_t{0};
    case AttributeType::kString:
      return std::string();
    case AttributeType::kFloats:
      return std::vector<float>();
    case AttributeType::kInts:
      return std::vector<int64_t>();
    case AttributeType::kStrings:
      return std::vector<std::string>();
    case AttributeType::kTensors:
      return std::vector<std::shared_ptr<const Initializer>>();
    case AttributeType::kGraphs:
      return std::vector<std::shared_ptr<Graph>>();
    case AttributeType::kSparseTensors:
      return std::vector<std::shared_ptr<const SparseTensor>>();
    case AttributeType::kTypeProto:
      return TypeAndShape();
    case AttributeType::kTypeProtos:
      return std::vector<TypeAndShape>();
    default:  // a tensor, graph or sparse tensor must be there
      return std::monostate();
  }
}

std::shared_ptr<Graph> ReadSubgraph(ProtoReader message, const GraphContext& context, Graph& parent) {
  auto subgraph = std::make_shared<Graph>(parent.shared_names(), &parent);
  ReadGraph(message, context, *subgraph);
  return subgraph;
}

// Reads the current field, which holds a value of attribute `head`.
void ReadValueField(ProtoReader& message, const AttributeHead& head, const GraphContext& context,
                    Graph& graph, AttributeValue& value) {
  NamePool& names = graph.names();
  const auto read_tensor = [&] {
    return std::make_shared<const Initializer>(ReadTensor(message.Message(), names));
  };
  switch (message.field()) {
    case AttributeProto::kF:
      value = message.Float();
      break;
    case AttributeProto::kI:
      value = message.Int64();
      break;
    case AttributeProto::kS:
      value = std::string(message.Text());
      break;
    case AttributeProto::kT:
      value = read_tensor();
      break;
    case AttributeProto::kG:
      value = ReadSubgraph(message.Message(), context, graph);
      break;
    case AttributeProto::kTp:
      value = ReadType(message.Message(), head.name);
      break;
    case AttributeProto::kSparseTensor:
      value = ReadSparseTensor(message.Message(), names);
      break;
    case AttributeProto::kFloats: {
      auto& floats = std::get<std::vector<float>>(value);
      message.EachFixed<float>([&](float element) { floats.push_back(element); });
      break;
    }
    case AttributeProto::kInts: {
      auto& ints = std::get<std::vector<int64_t>>(value);
      message.EachVarint([&](uint64_t element) { ints.push_back(static_cast<int64_t>(element)); });
      break;
    }
    case AttributeProto::kStrings:
      std::get<std::vector<std::string>>(value).emplace_back(message.Text());
      break;
    case AttributeProto::kTensors:
      std::get<std::vector<std::shared_ptr<const Initializer>>>(value).push_back(read_tensor());
      break;
    case AttributeProto::kGraphs:
      std::get<std::vector<std::shared_ptr<Graph>>>(value).push_back(
          ReadSubgraph(message.Message(), context, graph));
      break;
    case AttributeProto::kSparseTensors:
      std::get<std::vector<std::shared_ptr<const SparseTensor>>>(value).push_back(
          ReadSparseTensor(message.Message(), names));
      break;
    case AttributeProto::kTypeProtos:
      std::get<std::vector<TypeAndShape>>(value).push_back(ReadType(message.Message(), head.name));
      break;
    default:
      break;
  }
}

}  // namespace

Attribute ReadAttribute(ProtoReader message, const GraphContext& context, Graph& graph) {
  ProtoReader fields = message;
  const AttributeHead head = ReadHead(message);
  Attribute attribute;
  attribute.name = graph.names().Intern(head.name);
  if (head.name.empty()) message.Fail("an attribute has no name");
  if (!head.ref_name.empty()) {
    attribute.ref_name = graph.names().Intern(head.ref_name);
    attribute.ref_type = head.type;
    return attribute;
  }
  attribute.value = EmptyValue(head.type);
  while (fields.Next()) {
    const AttributeType type = TypeOfField(fields.field());
    if (type == AttributeType::kUndefined) continue;
    if (type == head.type) {
      ReadValueField(fields, head, context, graph, attribute.value);
    } else {
      fields.Fail("attribute '{}' of type {} has a value of type {}", head.name, static_cast<int>(head.type),
                  static_cast<int>(type));
    }
  }
  if (std::holds_alternative<std::monostate>(attribute.value)) {
    message.Fail("attribute '{}' has no value", head.name);
  }
  return attribute;
}

}  // namespace lamina::onnx
