#include "model/onnx/function_reader.h"

#include <utility>

#include "model/onnx/attribute_reader.h"
#include "model/onnx/graph_reader.h"
#include "model/onnx/opset_reader.h"
#include "model/onnx/type_reader.h"
#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

void ReadFormalInputs(ProtoReader message, const LocalFunction& function) {
  Graph& body = *function.body;
  while (message.Next(FunctionProto::kInput)) {
    const std::string_view name = message.Text();
    if (!message.ok()) return;
    if (name.empty() || body.FindValue(name).valid()) {
      return message.Fail("function '{}': input '{}' is empty or defined more than once", function.name,
                          name);
    }
    body.AddInput(body.MakeValue(name));
  }
}

void ReadFormalOutputs(ProtoReader message, const LocalFunction& function) {
  Graph& body = *function.body;
  while (message.Next(FunctionProto::kOutput)) {
    const std::string_view name = message.Text();
    const ValueId id = body.FindValue(name);
    if (!message.ok()) return;
    if (!id.valid()) {
      return message.Fail("function '{}': output '{}' is not produced by anything", function.name, name);
    }
    body.AddOutput(id);
  }
}

}  // namespace

LocalFunction ReadFunction(ProtoReader message, int64_t ir_version, std::shared_ptr<NamePool> names) {
  LocalFunction function;
  function.body = std::make_unique<Graph>(std::move(names), nullptr);
  for (ProtoReader fields = message; fields.Next();) {
    switch (fields.field()) {
      case FunctionProto::kName:
        function.name = fields.Text();
        break;
      case FunctionProto::kDomain:
        function.domain = NormalDomain(fields.Text());
        break;
      case FunctionProto::kOverload:
        function.overload = fields.Text();
        break;
      case FunctionProto::kDocString:
        function.doc_string = fields.Text();
        break;
      case FunctionProto::kAttribute:
        function.attributes.emplace_back(fields.Text());
        break;
      case FunctionProto::kOpsetImport:
        ReadOpsetImport(fields.Message(), function.opset_imports);
        break;
      case FunctionProto::kMetadataProps:
        ReadMetadataEntry(fields.Message(), function.metadata_props);
        break;
      default:
        break;
    }
  }
  if (function.name.empty()) message.Fail("a local function has no name");
  function.body->set_name(function.name);

  const GraphContext context{&function.opset_imports, ir_version};
  for (ProtoReader fields = message; fields.Next(FunctionProto::kAttributeProto);) {
    function.attribute_defaults.push_back(ReadAttribute(fields.Message(), context, *function.body));
  }
  ReadFormalInputs(message, function);
  ReadNodes(message, {FunctionProto::kNode, FunctionProto::kValueInfo}, context, *function.body);
  ReadFormalOutputs(message, function);
  CheckAcyclic(*function.body, message);
  return function;
}

}  // namespace lamina::onnx
