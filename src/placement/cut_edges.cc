#include "placement/cut_edges.h"

#include <algorithm>
#include <set>

#include "model/value_size.h"
#include "provider/kernel_registry.h"

namespace lamina {
namespace {

// Of a cache: the block number and the length of each row.
constexpr uint64_t kCacheRowBytes = 2 * sizeof(int32_t);

// Rows that a past input has at most: its first dimension.
uint64_t LargestBatch(const Graph& graph, ValueId past, const SymbolBounds& bounds) {
  const ValueInfo& value = graph.value(past);
  if (!value.shape || value.shape->rank() == 0) return 0;
  const DimBounds batch = value.shape->dims[0].Bounds(bounds);
  return batch.max == kUnboundedDim ? 0 : static_cast<uint64_t>(std::max<int64_t>(batch.max, 0));
}

std::vector<CutEdge> CacheRowEdges(const Graph& graph, const Placement& placement, int32_t host,
                                   const std::set<ValueId>& cached, const SymbolBounds& bounds) {
  std::vector<CutEdge> edges;
  std::set<int32_t> devices;
  for (size_t i = 0; i < placement.nodes.size(); ++i) {
    const NodePlacement& node = placement.nodes[i];
    if (node.device < 0 || node.device == host || !node.kernel || !node.kernel->def.kv_cache().valid())
      continue;
    const auto past_key = static_cast<size_t>(node.kernel->def.kv_cache().past_key);
    const std::vector<ValueId>& inputs = graph.node(NodeId{static_cast<int32_t>(i)}).inputs;
    if (past_key >= inputs.size() || cached.count(inputs[past_key]) == 0) continue;
    if (!devices.insert(node.device).second) continue;
    const uint64_t rows = LargestBatch(graph, inputs[past_key], bounds);
    edges.push_back({{}, "rows of the KV cache", host, node.device, rows * kCacheRowBytes});
  }
  return edges;
}

}  // namespace

int32_t ValueLocations::Home(ValueId id) const {
  const ValueInfo& value = graph_.value(id);
  if (!value.producer.valid()) return host();
  const NodePlacement& node = placement_.nodes[static_cast<size_t>(value.producer.index)];
  const bool on_host = node.kernel && node.kernel->def.is_host_output(value.output_index);
  return on_host ? host() : node.device;
}

int32_t ValueLocations::ReadAt(const Use& use) const {
  const NodePlacement& node = placement_.nodes[static_cast<size_t>(use.node.index)];
  const bool on_host =
      use.input_index != Use::kCapture && node.kernel && node.kernel->def.is_host_input(use.input_index);
  return on_host ? host() : node.device;
}

bool ValueLocations::NeedsHost(int32_t from, int32_t to) const {
  return from != host() && to != host() &&
         devices_[static_cast<size_t>(from)].provider != devices_[static_cast<size_t>(to)].provider;
}

std::vector<CopyRoute> ValueLocations::Routes(ValueId id, bool fetched) const {
  const ValueInfo& value = graph_.value(id);
  const bool is_constant = value.initializer.valid() && !value.is_graph_input;
  if (is_constant || value.outer.valid()) return {};
  const int32_t home = Home(id);
  std::set<int32_t> readers;
  for (const Use& use : value.uses) readers.insert(ReadAt(use));
  readers.erase(home);
  const bool through_host =
      std::any_of(readers.begin(), readers.end(), [&](int32_t reader) { return NeedsHost(home, reader); });
  if (home != host() && ((value.is_graph_output && fetched) || through_host)) readers.insert(host());
  std::vector<CopyRoute> routes;
  if (readers.erase(host()) > 0) routes.push_back({home, host()});
  for (const int32_t reader : readers) {
    routes.push_back({NeedsHost(home, reader) ? host() : home, reader});
  }
  return routes;
}

bool ValueLocations::IsReadAt(ValueId id, int32_t device) const {
  const std::vector<Use>& uses = graph_.value(id).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return ReadAt(use) == device; });
}

std::set<ValueId> ValueLocations::StayInCache(std::span<const ValueId> cached_values) const {
  std::set<ValueId> staying;
  for (size_t i = 0; i + 1 < cached_values.size(); i += 2) {
    const ValueId past = cached_values[i];
    const ValueId present = cached_values[i + 1];
    const int32_t device = Home(present);
    const std::vector<Use>& uses = graph_.value(past).uses;
    const bool stays =
        !graph_.value(past).is_graph_output &&
        std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return ReadAt(use) == device; });
    if (stays) staying.insert({past, present});
  }
  return staying;
}

std::vector<CutEdge> FindCutEdges(const Graph& graph, const Placement& placement,
                                  std::span<const PlacementDevice> devices,
                                  std::span<const ValueId> cached_values, const SymbolBounds& bounds) {
  if (devices.size() < 2) return {};
  const ValueLocations locations(graph, placement, devices);
  const std::set<ValueId> cached = locations.StayInCache(cached_values);
  std::vector<CutEdge> edges = CacheRowEdges(graph, placement, locations.host(), cached, bounds);
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const bool is_cached = cached.count(id) > 0;
    if (is_cached && graph.value(id).is_graph_input) continue;
    const Result<uint64_t> bytes = LargestBytes(graph, id, bounds);
    for (const CopyRoute& route : locations.Routes(id, /*fetched=*/!is_cached)) {
      edges.push_back({id, graph.value(id).name.str(), route.from, route.to, bytes.ok() ? *bytes : 0});
    }
  }
  return edges;
}

}  // namespace lamina
