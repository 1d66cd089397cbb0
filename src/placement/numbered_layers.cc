// Layers from texts: annotations, and numbers in names and module paths.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "placement/layer_finders.h"
#include "placement/layers.h"

namespace lamina {
namespace {

// Fewer nodes with a number are no layer: exporters number single nodes too (node_MatMul_206).
constexpr size_t kMinNodesPerLayer = 3;

struct NumberInText {
  std::string prefix;
  int64_t number;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Every number that is a part of a name: after a '.', '_', '/' or a letter, before one of the first three or
// the end.
std::vector<NumberInText> NumbersIn(const std::string& text) {
  std::vector<NumberInText> numbers;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (!IsDigit(text[begin])) continue;
    size_t end = begin;
    while (end < text.size() && IsDigit(text[end])) ++end;
    const bool ends_part = end == text.size() || text[end] == '.' || text[end] == '_' || text[end] == '/';
    int64_t number = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, number);
    if (ends_part && parsed.ec == std::errc()) numbers.push_back({text.substr(0, begin), number});
    begin = end;
  }
  return numbers;
}

// The nodes whose texts have one prefix before a number.
struct Numbering {
  std::map<int64_t, std::vector<NodeId>> nodes_by_number;
  size_t nodes = 0;

  bool LooksLikeLayers() const {
    if (nodes_by_number.size() < 2 || nodes < kMinNodesPerLayer * nodes_by_number.size()) return false;
    const int64_t first = nodes_by_number.begin()->first;
    const int64_t last = nodes_by_number.rbegin()->first;
    // Layers count from 0 or 1; some may be missing.
    return first <= 1 && static_cast<size_t>(last - first) < 2 * nodes_by_number.size();
  }
};

bool ReadsAMatrix(const Graph& graph, NodeId id) {
  for (const ValueId input : graph.node(id).inputs) {
    const Initializer* constant = graph.ConstantOf(input);
    if (constant && constant->shape.rank() >= 2) return true;
  }
  return false;
}

// The final norm: numbered like a layer, but without any matrix.
bool IsFinalNorm(const Graph& graph, const std::vector<NodeId>& nodes, size_t nodes_of_first_layer) {
  if (2 * nodes.size() >= nodes_of_first_layer) return false;
  return std::none_of(nodes.begin(), nodes.end(), [&](NodeId id) { return ReadsAMatrix(graph, id); });
}

// "layers." of "/model/layers.".
std::string LastPart(const std::string& prefix) { return prefix.substr(prefix.find_last_of('/') + 1); }

}  // namespace

std::optional<FoundLayers> FindNumberedLayers(const Graph& graph, std::span<const NodeId> order,
                                              const std::vector<std::string>& text_of) {
  std::unordered_map<std::string, Numbering> numberings;
  for (const NodeId id : order) {
    for (NumberInText& found : NumbersIn(text_of[static_cast<size_t>(id.index)])) {
      Numbering& numbering = numberings[std::move(found.prefix)];
      numbering.nodes_by_number[found.number].push_back(id);
      ++numbering.nodes;
    }
  }
  // The one that covers most; of equals the shortest prefix, which is the outermost.
  const std::pair<const std::string, Numbering>* best = nullptr;
  for (const auto& candidate : numberings) {
    if (!candidate.second.LooksLikeLayers()) continue;
    const auto rank = [](const auto& entry) {
      return std::make_pair(entry.second.nodes, -static_cast<int64_t>(entry.first.size()));
    };
    if (!best || rank(candidate) > rank(*best) ||
        (rank(candidate) == rank(*best) && candidate.first < best->first)) {
      best = &candidate;
    }
  }
  // Numbers on a few nodes of many are no division of the model.
  if (!best || 4 * best->second.nodes < order.size()) return std::nullopt;

  const auto& groups = best->second.nodes_by_number;
  const bool has_final_norm = IsFinalNorm(graph, groups.rbegin()->second, groups.begin()->second.size());
  const size_t count = groups.size() - (has_final_norm ? 1 : 0);
  FoundLayers layers;
  layers.of_node.resize(graph.nodes().size());
  int layer = 0;
  for (const auto& [number, nodes] : groups) {
    // Where the final norm is, the layer's number is the head's.
    if (static_cast<size_t>(layer) < count)
      layers.names.push_back(LastPart(best->first) + std::to_string(number));
    for (const NodeId id : nodes) layers.of_node[static_cast<size_t>(id.index)] = layer;
    ++layer;
  }
  return layers;
}

std::optional<FoundLayers> FindAnnotatedLayers(const Graph& graph, std::span<const NodeId> order) {
  FoundLayers layers;
  layers.of_node.resize(graph.nodes().size());
  std::unordered_map<std::string_view, int> layer_of;
  for (const NodeId id : order) {
    const std::string_view annotation = graph.node(id).LayerAnnotation();
    if (annotation.empty()) continue;
    const auto [found, is_first] = layer_of.emplace(annotation, static_cast<int>(layers.names.size()));
    if (is_first) layers.names.emplace_back(annotation);
    layers.of_node[static_cast<size_t>(id.index)] = found->second;
  }
  if (layers.names.size() < 2) return std::nullopt;
  return layers;
}

FoundLayers CutIntoEqualChunks(const Graph& graph, std::span<const NodeId> order) {
  constexpr size_t kMaxChunks = 16;
  uint64_t total_bytes = 0;
  size_t nodes_with_weights = 0;
  for (const NodeId id : order) {
    const uint64_t bytes = WeightBytesOf(graph, graph.node(id));
    total_bytes += bytes;
    nodes_with_weights += bytes > 0;
  }
  const size_t chunks = std::clamp<size_t>(nodes_with_weights, order.empty() ? 0 : 1, kMaxChunks);
  FoundLayers layers;
  layers.of_node.resize(graph.nodes().size());
  for (size_t i = 0; i < chunks; ++i) layers.names.push_back("chunk." + std::to_string(i));
  uint64_t bytes_before = 0;
  size_t last_chunk = 0;
  for (const NodeId id : order) {
    // A node goes where the middle of its bytes falls, but never before the one it comes after.
    const uint64_t bytes = WeightBytesOf(graph, graph.node(id));
    if (total_bytes > 0) {
      const double middle = (static_cast<double>(bytes_before) + 0.5 * static_cast<double>(bytes)) /
                            static_cast<double>(total_bytes);
      last_chunk =
          std::clamp(static_cast<size_t>(middle * static_cast<double>(chunks)), last_chunk, chunks - 1);
    }
    bytes_before += bytes;
    layers.of_node[static_cast<size_t>(id.index)] = static_cast<int>(last_chunk);
  }
  return layers;
}

}  // namespace lamina
