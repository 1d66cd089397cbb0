#include "model/function_inliner.h"

#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/function_calls.h"
#include "model/graph_copy.h"

namespace lamina {
namespace {

// What a copy of something takes in memory, roughly.
struct CopySize {
  uint64_t nodes = 0;
  uint64_t bytes = 0;
};

uint64_t BytesOf(const MetadataProps& props) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : props) bytes += sizeof(props[0]) + key.size() + value.size();
  return bytes;
}

// Without graphs; tensors are shared.
uint64_t BytesOf(const Attribute& attribute) {
  uint64_t bytes = sizeof(Attribute);
  if (const auto* text = std::get_if<std::string>(&attribute.value)) bytes += text->size();
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value)) bytes += ints->size() * 8;
  if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) bytes += floats->size() * 4;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    for (const std::string& text : *texts) bytes += sizeof(std::string) + text.size();
  }
  return bytes;
}

CopySize SizeOf(const Graph& graph) {
  CopySize size;
  for (const ValueInfo& value : graph.values()) {
    size.bytes += sizeof(ValueInfo) + value.name.view().size() + BytesOf(value.metadata_props);
  }
  for (const Node& node : graph.nodes()) {
    ++size.nodes;
    size.bytes +=
        sizeof(Node) + node.name.view().size() + node.doc_string.size() + BytesOf(node.metadata_props);
    for (const Attribute& attribute : node.attributes) size.bytes += BytesOf(attribute);
    for (const Graph* subgraph : node.Subgraphs()) {
      const CopySize inner = SizeOf(*subgraph);
      size.nodes += inner.nodes;
      size.bytes += inner.bytes;
    }
  }
  return size;
}

class Inliner {
 public:
  Inliner(Model& model, const FunctionIndex& functions) : model_(model), functions_(functions) {}

  // Inlines the calls in a graph whose nodes came from `depth` calls.
  Status InlineIn(Graph& graph, int depth) {
    std::vector<int> depths(graph.nodes().size(), depth);
    // The loop reaches the nodes it adds, and so the calls in them.
    for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
      const Node& node = graph.node(NodeId{i});
      const int node_depth = depths[static_cast<size_t>(i)];
      if (!node.alive) continue;
      const LocalFunction* called = functions_.CalledBy(node);
      if (called) {
        if (node_depth == kMaxCallDepth) {
          return UnsupportedError("node '{}': local functions call each other more than {} deep",
                                  node.name.view(), kMaxCallDepth);
        }
        LAMINA_RETURN_IF_ERROR(InlineCall(graph, NodeId{i}, *called));
        depths.resize(graph.nodes().size(), node_depth + 1);
      } else {
        for (Graph* subgraph : node.Subgraphs()) LAMINA_RETURN_IF_ERROR(InlineIn(*subgraph, node_depth));
      }
    }
    return {};
  }

 private:
  Status InlineCall(Graph& graph, NodeId id, const LocalFunction& function) {
    const Node call = graph.node(id);  // a copy: adding nodes moves the original
    const Graph& body = *function.body;
    LAMINA_RETURN_IF_ERROR(CheckCall(call, function));
    LAMINA_RETURN_IF_ERROR(CountBytes(call, body));

    ValueMap values;
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      values[body.inputs()[i].index] = i < call.inputs.size() ? call.inputs[i] : ValueId();
    }
    // An output that a node of the body makes is made as the caller's value; others (an input that is passed
    // through, one value as two outputs) need a node.
    std::vector<size_t> passed_on;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.outputs[i].valid()) continue;
      const ValueId output = body.outputs()[i];
      if (!values.emplace(output.index, call.outputs[i]).second) passed_on.push_back(i);
    }

    graph.RemoveNode(id);
    GraphCopyOptions options;
    options.prefix = call.name.str() + "/";
    options.inherited_metadata = call.metadata_props;
    options.map_attribute = [&](const Attribute& attribute) {
      return ResolveAttribute(attribute, call, function);
    };
    LAMINA_RETURN_IF_ERROR(CopyGraphInto(body, graph, values, options));

    for (const size_t i : passed_on) {
      const ValueId source = values.at(body.outputs()[i].index);
      if (!source.valid()) {
        return InvalidModelError("node '{}': function '{}' returns an input that the call leaves out",
                                 call.name.view(), FunctionName(function));
      }
      graph.AddNode(options.prefix + "Identity", "Identity", "", IdentityVersion(function), {source},
                    {call.outputs[i]}, {}, call.metadata_props);
    }
    for (const auto& [domain, version] : function.opset_imports)
      model_.opset_imports.emplace(domain, version);
    return {};
  }

  static Status CheckCall(const Node& call, const LocalFunction& function) {
    const Graph& body = *function.body;
    if (call.inputs.size() > body.inputs().size()) {
      return InvalidModelError("node '{}' passes {} inputs to function '{}', which has {}", call.name.view(),
                               call.inputs.size(), FunctionName(function), body.inputs().size());
    }
    if (call.outputs.size() > body.outputs().size()) {
      return InvalidModelError("node '{}' takes {} outputs of function '{}', which has {}", call.name.view(),
                               call.outputs.size(), FunctionName(function), body.outputs().size());
    }
    return {};
  }

  // Refuses a copy of `body` that would take too much, before it is made.
  Status CountBytes(const Node& call, const Graph& body) {
    const auto [found, is_first] = size_of_body_.try_emplace(&body);
    if (is_first) found->second = SizeOf(body);
    const CopySize& size = found->second;
    // Every node gets the prefix, as do the values it makes, and the metadata of the call.
    const uint64_t bytes_for_each_node = 2 * call.name.view().size() + BytesOf(call.metadata_props);
    inlined_bytes_ += size.bytes + size.nodes * bytes_for_each_node;
    if (inlined_bytes_ <= kMaxInlinedBytes) return {};
    return ResourceExhaustedError("node '{}': local functions expand to more than {} bytes of nodes",
                                  call.name.view(), kMaxInlinedBytes);
  }

  static std::optional<Attribute> ResolveAttribute(const Attribute& attribute, const Node& call,
                                                   const LocalFunction& function) {
    if (attribute.ref_name.empty()) return attribute;
    const Attribute* referred = call.FindAttribute(attribute.ref_name);
    for (const Attribute& candidate : function.attribute_defaults) {
      if (!referred && candidate.name == attribute.ref_name) referred = &candidate;
    }
    if (!referred) return std::nullopt;
    Attribute resolved = *referred;
    resolved.name = attribute.name;
    return resolved;
  }

  int IdentityVersion(const LocalFunction& function) const {
    const auto own = function.opset_imports.find("");
    if (own != function.opset_imports.end()) return own->second;
    const auto of_model = model_.opset_imports.find("");
    if (of_model != model_.opset_imports.end()) return of_model->second;
    return 1;
  }

  Model& model_;
  const FunctionIndex& functions_;
  uint64_t inlined_bytes_ = 0;
  std::unordered_map<const Graph*, CopySize> size_of_body_;
};

}  // namespace

Status InlineFunctions(Model& model) {
  if (model.functions.empty()) return {};
  LAMINA_ASSIGN_OR_RETURN(const FunctionIndex functions, FunctionIndex::Create(model));
  try {
    LAMINA_RETURN_IF_ERROR(Inliner(model, functions).InlineIn(*model.graph, 0));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("not enough host memory to inline the local functions of the model");
  }
  model.functions.clear();
  return {};
}

}  // namespace lamina
