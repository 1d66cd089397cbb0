#include "placement/layering_index.h"

#include <utility>

#include "placement/module_path.h"

namespace lamina {
namespace {

std::variant<LayeringRuleMatcher, SubstringMatcher> MakeMatcher(const LayerRules& rules) {
  if (rules.mode == RuleMode::kAnnotation) return LayeringRuleMatcher(rules);
  return SubstringMatcher(rules);
}

}  // namespace

LayeringIndex::LayeringIndex(const Graph& graph, const LayerRules& rules, std::vector<bool> usable)
    : matcher_(MakeMatcher(rules)), usable_(std::move(usable)), counts_(rules.rules.size(), 0) {
  AddGraph(graph, std::nullopt);
}

std::optional<size_t> LayeringIndex::Match(const Node& node) const {
  if (const auto* by_annotation = std::get_if<LayeringRuleMatcher>(&matcher_)) {
    return by_annotation->Match(node.LayerAnnotation());
  }
  const auto& by_name = std::get<SubstringMatcher>(matcher_);
  const std::optional<size_t> rule = by_name.Match(node.name);
  return rule ? rule : by_name.Match(ModulePath(node));
}

void LayeringIndex::AddGraph(const Graph& graph, std::optional<size_t> inherited) {
  rules_[&graph].resize(graph.nodes().size());
  const bool inherits = std::holds_alternative<LayeringRuleMatcher>(matcher_);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!node.alive) continue;
    std::optional<size_t> rule = Match(node);
    if (!rule && inherits) rule = inherited;
    if (rule && !usable_[*rule]) rule.reset();
    Assign(graph, NodeId{static_cast<int32_t>(i)}, rule);
    for (const Graph* subgraph : node.Subgraphs()) AddGraph(*subgraph, rule);
  }
}

void LayeringIndex::Assign(const Graph& graph, NodeId node, std::optional<size_t> rule) {
  std::vector<std::optional<size_t>>& of_graph = rules_[&graph];
  if (of_graph.size() <= static_cast<size_t>(node.index))
    of_graph.resize(static_cast<size_t>(node.index) + 1);
  std::optional<size_t>& slot = of_graph[static_cast<size_t>(node.index)];
  if (slot) --counts_[*slot];
  slot = rule;
  if (slot) ++counts_[*slot];
}

std::optional<size_t> LayeringIndex::RuleOf(const Graph& graph, NodeId node) const {
  const auto found = rules_.find(&graph);
  if (found == rules_.end() || static_cast<size_t>(node.index) >= found->second.size()) return {};
  return found->second[static_cast<size_t>(node.index)];
}

void LayeringIndex::Unassign(const Graph& graph, NodeId node) { Assign(graph, node, std::nullopt); }

void LayeringIndex::Update(const Graph& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    std::optional<size_t> rule = Match(graph.node(node));
    if (rule && !usable_[*rule]) rule.reset();
    Assign(graph, node, rule);
  }
}

}  // namespace lamina
