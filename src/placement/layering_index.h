// Which rule every node of a model falls under.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "model/graph.h"
#include "placement/layer_rules.h"
#include "placement/rule_matchers.h"

namespace lamina {

// Built before partitioning and kept up to date by rewrites. In annotation mode a node of a subgraph that
// matches no rule inherits the rule of the node that holds the subgraph; in name mode every node is matched
// by itself: its name or, where that matches nothing, its module path. Not thread-safe.
class LayeringIndex {
 public:
  // `usable[i]`: whether a device answers to rule i. Nodes under other rules stay unassigned, and subgraphs
  // do not inherit from them.
  LayeringIndex(const Graph& graph, const LayerRules& rules, std::vector<bool> usable);

  std::optional<size_t> RuleOf(const Graph& graph, NodeId node) const;
  // Nodes under the rule over all graphs.
  size_t CountNodes(size_t rule) const { return counts_[rule]; }
  void Unassign(const Graph& graph, NodeId node);
  // Matches the given nodes of a graph anew, without inheritance: nodes that a rewrite made.
  void Update(const Graph& graph, const std::vector<NodeId>& nodes);

 private:
  void AddGraph(const Graph& graph, std::optional<size_t> inherited);
  std::optional<size_t> Match(const Node& node) const;
  void Assign(const Graph& graph, NodeId node, std::optional<size_t> rule);

  std::variant<LayeringRuleMatcher, SubstringMatcher> matcher_;
  std::vector<bool> usable_;
  std::vector<size_t> counts_;
  std::unordered_map<const Graph*, std::vector<std::optional<size_t>>> rules_;  // by node index
};

}  // namespace lamina
