#include "cli/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "cli/parameter_count.h"
#include "model/function_inliner.h"
#include "model/onnx/model_reader.h"
#include "placement/layers.h"

namespace lamina::cli {
namespace {

void AddGraph(const Graph& graph, ModelReport& report) {
  for (const Initializer& initializer : graph.initializers()) {
    report.bytes_by_type[std::string(DataTypeName(initializer.type))] += initializer.size_bytes();
    report.weight_bytes += initializer.size_bytes();
  }
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    ++report.operators[node.op_type.str()];
    for (const Graph* subgraph : node.Subgraphs()) AddGraph(*subgraph, report);
  }
}

Status AddLayers(const Graph& graph, ModelReport& report) {
  LAMINA_ASSIGN_OR_RETURN(const LayerAssignment layers, AssignLayers(graph));
  const std::vector<uint64_t> bytes = LayerWeightBytes(graph, layers);
  for (int layer = LayerAssignment::kEmbedding; layer <= layers.head(); ++layer) {
    const bool is_end = layer == LayerAssignment::kEmbedding || layer == layers.head();
    const bool has_nodes =
        std::find(layers.of_node.begin(), layers.of_node.end(), layer) != layers.of_node.end();
    const uint64_t weight_bytes = bytes[static_cast<size_t>(layer - LayerAssignment::kEmbedding)];
    if (is_end && !has_nodes && weight_bytes == 0) continue;  // chunks have neither embedding nor head
    report.layers.push_back({std::string(layers.NameOf(layer)), weight_bytes});
  }
  report.layers_from = LayerSourceName(layers.source);
  return {};
}

std::vector<ModelReport::Value> ValuesOf(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<ModelReport::Value> values;
  for (const ValueId id : ids) {
    const ValueInfo& value = graph.value(id);
    values.push_back({value.name.str(), value.type, value.shape});
  }
  return values;
}

// --- JSON ---

nlohmann::ordered_json AsJson(const std::vector<ModelReport::Value>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelReport::Value& value : values) {
    nlohmann::ordered_json shape;  // null: not known
    if (value.shape) {
      shape = nlohmann::ordered_json::array();
      for (const DimExpr& dim : value.shape->dims) {
        const std::optional<int64_t> constant = dim.constant();
        if (constant) {
          shape.push_back(*constant);
        } else {
          shape.push_back(dim.ToString());
        }
      }
    }
    const std::string type =
        value.type.is_tensor() ? std::string(DataTypeName(value.type.element)) : value.type.ToString();
    list.push_back({{"name", value.name}, {"type", type}, {"shape", shape}});
  }
  return list;
}

// --- Text ---

std::string Count(uint64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f} billion", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f} million", value / 1e6);
  return fmt::format("{}", count);
}

std::string Property(std::string_view name, std::string_view value) {
  return fmt::format("  {:<16}{}\n", name, value);
}

std::string Opsets(const ModelReport& report) {
  std::string text = fmt::format("ONNX IR {}", report.ir_version);
  for (const auto& [domain, version] : report.opset_imports) {
    text += fmt::format(", {} {}", domain.empty() ? "ai.onnx" : domain, version);
  }
  return text;
}

std::string Weights(const ModelReport& report) {
  std::vector<std::pair<std::string, uint64_t>> types(report.bytes_by_type.begin(),
                                                      report.bytes_by_type.end());
  std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [type, bytes] : types) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", type, ApproximateByteSize(bytes));
  }
  return fmt::format("{} ({})", ApproximateByteSize(report.weight_bytes), text);
}

// The name with its first number replaced by '*', and that number; 0 and no change where it has none.
std::pair<std::string, int64_t> Pattern(const std::string& name) {
  const size_t begin = name.find_first_of("0123456789");
  if (begin == std::string::npos) return {name, 0};
  const size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  if (end - begin > 9) return {name, 0};
  return {name.substr(0, begin) + "*" + name.substr(end), std::stoll(name.substr(begin, end - begin))};
}

// Rows of a list; rows whose names differ only in consecutive numbers, and that say the same, become one.
class Rows {
 public:
  void Add(const std::string& name, const std::string& text) {
    const auto [pattern, number] = Pattern(name);
    for (Row& row : rows_) {
      if (row.pattern == pattern && row.text == text && pattern != name && row.last + 1 == number) {
        row.last = number;
        return;
      }
    }
    rows_.push_back({name, pattern, text, number, number});
  }

  std::string ToText() const {
    size_t width = 0;
    for (const Row& row : rows_) width = std::max(width, row.ShownName().size());
    std::string text;
    for (const Row& row : rows_) text += fmt::format("  {:<{}}  {}\n", row.ShownName(), width, row.text);
    return text;
  }

 private:
  struct Row {
    std::string name;
    std::string pattern;
    std::string text;
    int64_t first;
    int64_t last;

    std::string ShownName() const {
      if (first == last) return name;
      const size_t star = pattern.find('*');
      return fmt::format("{}{}-{}{}", pattern.substr(0, star), first, last, pattern.substr(star + 1));
    }
  };
  std::vector<Row> rows_;
};

std::string ValuesAsText(const std::vector<ModelReport::Value>& values) {
  Rows rows;
  for (const ModelReport::Value& value : values) {
    const std::string type =
        value.type.is_tensor() ? std::string(DataTypeName(value.type.element)) : value.type.ToString();
    rows.Add(value.name, type + (value.shape ? " " + value.shape->ToString() : ""));
  }
  return rows.ToText();
}

std::string LayersAsText(const ModelReport& report) {
  Rows rows;
  for (const ModelReport::Layer& layer : report.layers) {
    rows.Add(layer.name, ApproximateByteSize(layer.weight_bytes));
  }
  return rows.ToText();
}

std::string OperatorsAsText(const ModelReport& report) {
  std::vector<std::pair<std::string, int>> operators(report.operators.begin(), report.operators.end());
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : operators) text += fmt::format("  {:>6}  {}\n", count, name);
  return text;
}

}  // namespace

Result<ModelReport> ReportModel(const ModelFolder& folder) {
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, ReadModel(folder.model_path));
  LAMINA_RETURN_IF_ERROR(InlineFunctions(*model));
  const Graph& graph = *model->graph;
  ModelReport report;
  report.model_path = folder.model_path;
  report.architecture = folder.model_type;
  report.producer = model->producer_name;
  if (!model->producer_version.empty()) report.producer += " " + model->producer_version;
  report.ir_version = model->ir_version;
  report.opset_imports = model->opset_imports;
  report.parameters = CountParameters(graph);
  report.context_length_tokens = folder.context_length_tokens;
  report.inputs = ValuesOf(graph, graph.inputs());
  report.outputs = ValuesOf(graph, graph.outputs());
  report.metadata = model->metadata_props;
  AddGraph(graph, report);
  LAMINA_RETURN_IF_ERROR(AddLayers(graph, report));
  return report;
}

std::string ReportAsJson(const ModelReport& report) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["architecture"] = report.architecture.empty() ? Json() : Json(report.architecture);
  json["parameters"] = report.parameters;
  json["bytes_by_type"] = report.bytes_by_type;
  json["context_length"] = report.context_length_tokens > 0 ? Json(report.context_length_tokens) : Json();
  json["layers"] = Json::array();
  for (const ModelReport::Layer& layer : report.layers) {
    json["layers"].push_back({{"name", layer.name}, {"bytes", layer.weight_bytes}});
  }
  json["layers_from"] = report.layers_from;
  json["inputs"] = AsJson(report.inputs);
  json["outputs"] = AsJson(report.outputs);
  json["operators"] = report.operators;
  json["metadata"] = Json::object();
  for (const auto& [key, value] : report.metadata) json["metadata"][key] = value;
  json["producer"] = report.producer;
  json["ir_version"] = report.ir_version;
  json["opset_imports"] = Json::object();
  for (const auto& [domain, version] : report.opset_imports) {
    json["opset_imports"][domain.empty() ? "ai.onnx" : domain] = version;
  }
  // Names in a model need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ReportAsText(const ModelReport& report) {
  std::string text = report.model_path + "\n";
  text += Property("architecture", report.architecture.empty() ? "not known" : report.architecture);
  text += Property("parameters", Count(report.parameters));
  text += Property("weights", Weights(report));
  text += Property("context length", report.context_length_tokens > 0
                                         ? fmt::format("{} tokens", report.context_length_tokens)
                                         : "not known");
  if (!report.producer.empty()) text += Property("producer", report.producer);
  text += Property("format", Opsets(report));
  for (const auto& [key, value] : report.metadata) text += Property(key, value);
  text += fmt::format("\nlayers, from {}\n{}", report.layers_from, LayersAsText(report));
  text += "\ninputs\n" + ValuesAsText(report.inputs);
  text += "\noutputs\n" + ValuesAsText(report.outputs);
  text += "\noperators\n" + OperatorsAsText(report);
  return text;
}

}  // namespace lamina::cli
