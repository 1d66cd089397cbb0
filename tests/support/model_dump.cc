#include "support/model_dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/sha1.h"

namespace lamina::testing {
namespace {

std::string Indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

std::string Dump(const Initializer& tensor) {
  std::string text = fmt::format("{}{} ", DataTypeName(tensor.type), tensor.shape.ToString());
  if (const auto* ref = std::get_if<ExternalDataRef>(&tensor.source)) {
    return text + fmt::format("external '{}' {} {} '{}'", ref->location, ref->offset_bytes, ref->length_bytes,
                              ref->checksum);
  }
  if (const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&tensor.source)) {
    return text + fmt::format("sparse({}; {})", Dump((*sparse)->values), Dump((*sparse)->indices));
  }
  const Tensor elements = *tensor.InMemory();
  if (tensor.type == DataType::kString) {
    return text + fmt::format("{}", fmt::join(elements.elements<std::string>(), "|"));
  }
  Sha1 digest;
  digest.Update({static_cast<const std::byte*>(elements.raw_data()), elements.size_bytes()});
  return text + digest.HexDigest();
}

std::string Dump(const TypeAndShape& type) {
  return type.type.ToString() + (type.shape ? type.shape->ToString() : "");
}

std::string Dump(const MetadataProps& props) {
  std::string text;
  for (const auto& [key, value] : props) text += fmt::format(" {}={}", key, value);
  return text;
}

std::string Dump(const Graph& graph);

struct AttributeDumper {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(float value) const { return fmt::format("{}f", value); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return fmt::format("'{}'", value); }
  std::string operator()(const std::shared_ptr<const Initializer>& value) const {
    return value->name.str() + Dump(*value);
  }
  std::string operator()(const std::shared_ptr<Graph>& value) const { return Indented(Dump(*value)); }
  std::string operator()(const std::shared_ptr<const SparseTensor>& value) const {
    return fmt::format("sparse{}({}; {})", value->shape.ToString(), Dump(value->values),
                       Dump(value->indices));
  }
  std::string operator()(const TypeAndShape& value) const { return Dump(value); }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = fmt::format("{}[", values.size());
    for (const T& value : values) text += (*this)(value) + ",";
    return text + "]";
  }
};

std::string Dump(const Attribute& attribute) {
  return fmt::format("{} ({}) ref='{}' = {}", attribute.name.view(), static_cast<int>(attribute.type()),
                     attribute.ref_name.view(), std::visit(AttributeDumper(), attribute.value));
}

std::string DumpValue(const Graph& graph, ValueId id) {
  if (!id.valid()) return "-";
  const ValueInfo& value = graph.value(id);
  return fmt::format("{}:{}{}{}", value.name.view(), Dump(TypeAndShape{value.type, value.shape}),
                     value.outer.valid() ? " captured" : "", Dump(value.metadata_props));
}

std::string DumpValues(const Graph& graph, std::span<const ValueId> ids) {
  std::string text;
  for (const ValueId id : ids) text += DumpValue(graph, id) + ", ";
  return text;
}

std::string Dump(const Graph& graph) {
  std::string text =
      fmt::format("graph '{}' '{}'{}\n", graph.name(), graph.doc_string(), Dump(graph.metadata_props()));
  text += "inputs " + DumpValues(graph, graph.inputs()) + "\n";
  text += "outputs " + DumpValues(graph, graph.outputs()) + "\n";
  std::vector<std::string> initializers;
  for (const Initializer& initializer : graph.initializers()) {
    initializers.push_back(
        fmt::format("{} = {}\n", DumpValue(graph, graph.FindValue(initializer.name)), Dump(initializer)));
  }
  std::sort(initializers.begin(), initializers.end());
  for (const std::string& initializer : initializers) text += initializer;
  const Result<std::vector<NodeId>> order = graph.TopologicalOrder();
  if (!order.ok()) return text + order.status().ToString();
  for (const NodeId id : *order) {
    const Node& node = graph.node(id);
    text += fmt::format("{} = {}::{}:{} @{} [{}] ({}) '{}'{}\n", DumpValues(graph, node.outputs),
                        node.domain.view(), node.op_type.view(), node.overload.view(), node.since_version,
                        node.name.view(), DumpValues(graph, node.inputs), node.doc_string,
                        Dump(node.metadata_props));
    for (const Attribute& attribute : node.attributes) text += "  " + Dump(attribute) + "\n";
  }
  return text;
}

std::string Dump(const std::map<std::string, int>& imports) {
  std::string text;
  for (const auto& [domain, version] : imports) text += fmt::format(" {}:{}", domain, version);
  return text;
}

}  // namespace

std::string DumpModel(const Model& model) {
  std::string text =
      fmt::format("ir {} by {} {} domain '{}' version {} '{}' opsets{}{}\n", model.ir_version,
                  model.producer_name, model.producer_version, model.domain, model.model_version,
                  model.doc_string, Dump(model.opset_imports), Dump(model.metadata_props));
  text += Dump(*model.graph);
  for (const LocalFunction& function : model.functions) {
    text += fmt::format("function {}::{}:{} '{}' opsets{}{} attributes {}\n", function.domain, function.name,
                        function.overload, function.doc_string, Dump(function.opset_imports),
                        Dump(function.metadata_props), fmt::join(function.attributes, ","));
    for (const Attribute& attribute : function.attribute_defaults)
      text += "  default " + Dump(attribute) + "\n";
    text += Dump(*function.body);
  }
  return text;
}

std::string FirstDifference(const std::string& a, const std::string& b) {
  if (a == b) return {};
  std::istringstream lines_a(a);
  std::istringstream lines_b(b);
  std::string line_a;
  std::string line_b;
  do {
    line_a.clear();
    line_b.clear();
    std::getline(lines_a, line_a);
    std::getline(lines_b, line_b);
  } while (line_a == line_b && lines_a && lines_b);
  return line_a + "\n" + line_b;
}

}  // namespace lamina::testing
