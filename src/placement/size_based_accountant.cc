#include "placement/size_based_accountant.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace lamina {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<uint64_t>::max();

// Bytes of an output with a static shape, else 0.
uint64_t StaticBytes(const ValueInfo& value) {
  if (!value.type.is_tensor() || !value.shape) return 0;
  const std::optional<Shape> shape = value.shape->constant();
  if (!shape) return 0;
  return TensorBytes(value.type.element, *shape).status().ok() ? *TensorBytes(value.type.element, *shape) : 0;
}

// Every initializer that the node or its subgraphs read, more than once where they do.
void ForEachWeight(const Graph& graph, const Node& node,
                   const std::function<void(const Graph& owner, InitializerId)>& visit) {
  for (ValueId id : node.inputs) {
    if (!id.valid()) continue;
    const Graph* owner = &graph;
    while (owner->value(id).outer.valid()) {
      id = owner->value(id).outer;
      owner = owner->parent();
    }
    if (owner->value(id).initializer.valid()) visit(*owner, owner->value(id).initializer);
  }
  for (const Graph* body : node.Subgraphs()) {
    for (const Node& inner : body->nodes()) {
      if (inner.alive) ForEachWeight(*body, inner, visit);
    }
  }
}

}  // namespace

void SizeBasedAccountant::AddConsumedAmount(uint64_t bytes) {
  consumed_bytes_ = bytes > kMaxBytes - consumed_bytes_ ? kMaxBytes : consumed_bytes_ + bytes;
}

void SizeBasedAccountant::RemoveConsumedAmount(uint64_t bytes) {
  consumed_bytes_ -= std::min(bytes, consumed_bytes_);
}

Result<uint64_t> SizeBasedAccountant::ComputeResourceCount(const Graph& graph, NodeId id) {
  uint64_t total_bytes = 0;
  bool overflow = false;
  const auto add = [&](uint64_t bytes) {
    overflow |= __builtin_add_overflow(total_bytes, bytes, &total_bytes);
  };
  if (stats_) {
    const NodeMemoryStats* stats = stats_->Find(NodeStatsName(graph, id));
    if (!stats) return uint64_t{0};
    for (const uint64_t bytes :
         {stats->input_bytes, stats->initializer_bytes, stats->dynamic_bytes, stats->temporary_bytes}) {
      add(bytes);
    }
  } else {
    const Node& node = graph.node(id);
    ForEachWeight(graph, node, [&](const Graph& owner, InitializerId weight) {
      const Weight key{&owner, weight.index};
      if (committed_.count(key) > 0 || !pending_.insert(key).second) return;
      add(owner.initializer(weight).size_bytes());
    });
    for (const ValueId output : node.outputs) {
      if (output.valid()) add(StaticBytes(graph.value(output)));
    }
  }
  if (overflow) {
    return InvalidModelError("the cost of node '{}' does not fit 64 bits", graph.node(id).name.view());
  }
  return total_bytes;
}

void SizeBasedAccountant::CommitWeightsForNode(const Graph& graph, NodeId node) {
  ForEachWeight(graph, graph.node(node), [&](const Graph& owner, InitializerId weight) {
    const Weight key{&owner, weight.index};
    committed_.insert(key);
    pending_.erase(key);
  });
}

void SizeBasedAccountant::ResetForNewPass() {
  pending_.clear();
  stopped_ = false;
}

Result<PartitioningSettings> ParsePartitioningSettings(std::string_view text) {
  constexpr const char* kKey = "session.resource_cuda_partitioning_settings";
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos) {
    return InvalidArgumentError("{}: expected LIMIT_KB,STATS_FILE with exactly one comma, found '{}'", kKey,
                                text);
  }
  PartitioningSettings settings;
  const std::string_view limit = TrimSpaces(text.substr(0, comma));
  settings.stats_file = std::string(TrimSpaces(text.substr(comma + 1)));
  if (limit.empty()) return settings;
  uint64_t limit_kb = 0;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), limit_kb);
  if (error != std::errc() || end != limit.data() + limit.size() || limit_kb > kMaxBytes / 1024) {
    return InvalidArgumentError("{}: expected a limit in KiB, found '{}'", kKey, limit);
  }
  settings.limit_bytes = limit_kb * 1024;
  return settings;
}

}  // namespace lamina
