#include "placement/layers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "placement/layer_finders.h"
#include "placement/module_path.h"

namespace lamina {
namespace {

constexpr int kEmbedding = LayerAssignment::kEmbedding;

// Calls visit for the producers of what a node reads, itself or in its subgraphs.
template <typename Visitor>
void ForEachProducer(const Graph& graph, const Node& node, Visitor&& visit) {
  const auto visit_producer = [&](ValueId value) {
    if (value.valid() && graph.value(value).producer.valid()) visit(graph.value(value).producer);
  };
  for (const ValueId input : node.inputs) visit_producer(input);
  for (const Graph* subgraph : node.Subgraphs()) {
    for (const ValueInfo& value : subgraph->values()) visit_producer(value.outer);
  }
}

// Gives a layer to the nodes about which nothing was found, from those around them.
class Spreader {
 public:
  Spreader(const Graph& graph, const std::vector<NodeId>& order, LayerAssignment& layers)
      : graph_(graph), order_(order), layers_(layers) {}

  void Spread(const std::vector<std::optional<int>>& found) {
    FindWhatDependsOnInputs();
    FindWhatLeadsToLayers(found);
    std::vector<bool> is_set(found.size(), false);
    // Forwards: what comes after a layer belongs to it, what comes after the last one to the head.
    for (const NodeId id : order_) {
      const auto index = static_cast<size_t>(id.index);
      if (found[index]) {
        layers_.of_node[index] = *found[index];
        is_set[index] = true;
      } else if (depends_on_inputs_[index]) {
        int highest = kEmbedding;
        ForEachProducer(graph_, graph_.node(id), [&](NodeId producer) {
          const auto from = static_cast<size_t>(producer.index);
          if (depends_on_inputs_[from]) highest = std::max(highest, layers_.of_node[from]);
        });
        const bool past_layers = highest == layers_.count() - 1 && !leads_to_layers_[index];
        layers_.of_node[index] = past_layers ? layers_.head() : highest;
        is_set[index] = true;
      }
    }
    // Backwards: what is made of constants alone belongs where it is first used.
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const auto index = static_cast<size_t>(id->index);
      if (is_set[index]) continue;
      int lowest = std::numeric_limits<int>::max();
      for (const ValueId output : graph_.node(*id).outputs) {
        if (!output.valid()) continue;
        for (const Use& use : graph_.value(output).uses) lowest = std::min(lowest, layers_.OfNode(use.node));
      }
      layers_.of_node[index] = lowest == std::numeric_limits<int>::max() ? kEmbedding : lowest;
    }
  }

 private:
  void FindWhatDependsOnInputs() {
    depends_on_inputs_.assign(graph_.nodes().size(), false);
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      bool depends = false;
      for (const ValueId input : node.inputs) depends |= input.valid() && graph_.value(input).is_graph_input;
      ForEachProducer(graph_, node, [&](NodeId producer) {
        depends |= depends_on_inputs_[static_cast<size_t>(producer.index)];
      });
      depends_on_inputs_[static_cast<size_t>(id.index)] = depends;
    }
  }

  void FindWhatLeadsToLayers(const std::vector<std::optional<int>>& found) {
    leads_to_layers_.assign(graph_.nodes().size(), false);
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const auto index = static_cast<size_t>(id->index);
      const bool in_a_layer = found[index] && *found[index] < layers_.head();
      if (!in_a_layer && !leads_to_layers_[index]) continue;
      ForEachProducer(graph_, graph_.node(*id),
                      [&](NodeId producer) { leads_to_layers_[static_cast<size_t>(producer.index)] = true; });
    }
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  LayerAssignment& layers_;
  std::vector<bool> depends_on_inputs_;  // by NodeId::index: on more than constants
  std::vector<bool> leads_to_layers_;    // by NodeId::index: something after it was found to be in a layer
};

std::vector<std::string> TextsOf(const Graph& graph, std::string (*text_of)(const Node&)) {
  std::vector<std::string> texts;
  for (const Node& node : graph.nodes()) texts.push_back(node.alive ? text_of(node) : std::string());
  return texts;
}

std::pair<LayerSource, FoundLayers> Find(const Graph& graph, const std::vector<NodeId>& order) {
  if (auto found = FindAnnotatedLayers(graph, order)) return {LayerSource::kAnnotations, *std::move(found)};
  const auto names = TextsOf(graph, [](const Node& node) { return node.name.str(); });
  if (auto found = FindNumberedLayers(graph, order, names)) {
    return {LayerSource::kNodeNames, *std::move(found)};
  }
  if (auto found = FindNumberedLayers(graph, order, TextsOf(graph, ModulePath))) {
    return {LayerSource::kModulePaths, *std::move(found)};
  }
  if (auto found = FindAttentionLayers(graph, order)) return {LayerSource::kAttention, *std::move(found)};
  return {LayerSource::kEqualBytes, CutIntoEqualChunks(graph, order)};
}

}  // namespace

std::string_view LayerSourceName(LayerSource source) {
  switch (source) {
    case LayerSource::kAnnotations:
      return "annotations";
    case LayerSource::kNodeNames:
      return "node names";
    case LayerSource::kModulePaths:
      return "module paths";
    case LayerSource::kAttention:
      return "attention";
    case LayerSource::kEqualBytes:
      return "equal bytes";
  }
  return "";
}

std::string_view LayerAssignment::NameOf(int layer) const {
  if (layer == kEmbedding) return "embedding";
  return layer == head() ? std::string_view("head") : names[static_cast<size_t>(layer)];
}

Result<LayerAssignment> AssignLayers(const Graph& graph) {
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.TopologicalOrder());
  auto [source, found] = Find(graph, order);
  LayerAssignment layers;
  layers.source = source;
  layers.names = std::move(found.names);
  layers.of_node.assign(graph.nodes().size(), kEmbedding);
  Spreader(graph, order, layers).Spread(found.of_node);
  return layers;
}

std::vector<int> LayersOfInitializers(const Graph& graph, const LayerAssignment& layers) {
  std::vector<int> of_initializer(graph.initializers().size(), kEmbedding);
  for (const ValueInfo& value : graph.values()) {
    if (!value.initializer.valid() || value.uses.empty()) continue;
    int first = layers.head();
    for (const Use& use : value.uses) first = std::min(first, layers.OfNode(use.node));
    of_initializer[static_cast<size_t>(value.initializer.index)] = first;
  }
  return of_initializer;
}

namespace {

// Bytes of the initializers that subgraphs define.
uint64_t BytesInSubgraphs(const Node& node) {
  uint64_t bytes = 0;
  for (const Graph* subgraph : node.Subgraphs()) {
    for (const Initializer& initializer : subgraph->initializers()) bytes += initializer.size_bytes();
    for (const Node& inner : subgraph->nodes()) bytes += BytesInSubgraphs(inner);
  }
  return bytes;
}

}  // namespace

std::vector<uint64_t> LayerWeightBytes(const Graph& graph, const LayerAssignment& layers) {
  std::vector<uint64_t> bytes(static_cast<size_t>(layers.count()) + 2, 0);
  const auto at = [&bytes](int layer) -> uint64_t& { return bytes[static_cast<size_t>(layer - kEmbedding)]; };
  const std::vector<int> of_initializer = LayersOfInitializers(graph, layers);
  for (size_t i = 0; i < of_initializer.size(); ++i) {
    at(of_initializer[i]) += graph.initializers()[i].size_bytes();
  }
  for (size_t i = 0; i < layers.of_node.size(); ++i) {
    if (graph.nodes()[i].alive) at(layers.of_node[i]) += BytesInSubgraphs(graph.nodes()[i]);
  }
  return bytes;
}

uint64_t WeightBytesOf(const Graph& graph, const Node& node) {
  uint64_t bytes = BytesInSubgraphs(node);
  const auto add = [&](ValueId value) {
    if (const Initializer* constant = graph.ConstantOf(value)) bytes += constant->size_bytes();
  };
  for (const ValueId input : node.inputs) add(input);
  for (const Graph* subgraph : node.Subgraphs()) {
    for (const ValueInfo& value : subgraph->values()) {
      if (value.outer.valid()) add(value.outer);
    }
  }
  return bytes;
}

}  // namespace lamina
