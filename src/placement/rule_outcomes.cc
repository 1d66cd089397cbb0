#include "placement/rule_outcomes.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "placement/module_path.h"
#include "placement/rule_matchers.h"

namespace lamina {
namespace {

std::string TextOf(const LayerRule& rule) { return fmt::format("{}({})", rule.device, rule.text); }

// By rule: the one that always beats it.
std::map<size_t, size_t> WinnersOver(const LayerRules& rules) {
  std::map<size_t, size_t> winners;
  if (rules.mode != RuleMode::kAnnotation) return winners;
  for (const auto& [loser, winner] : LayeringRuleMatcher(rules).Shadowed(rules))
    winners.emplace(loser, winner);
  return winners;
}

// Name mode: finds rules without nodes whose patterns do occur, in nodes that other rules won.
class BeatenRules {
 public:
  BeatenRules(const LayerRules& rules, const LayeringIndex& index) : index_(index) {
    for (size_t rule = 0; rule < rules.rules.size(); ++rule) {
      if (rules.mode != RuleMode::kName || index.CountNodes(rule) > 0) continue;
      candidates_.rules.push_back(rules.rules[rule]);
      rule_of_candidate_.push_back(rule);
    }
  }

  // By rule: one that beat it.
  std::map<size_t, size_t> Find(const Graph& graph) {
    if (!candidates_.rules.empty()) Visit(graph, SubstringMatcher(candidates_));
    return std::move(winners_);
  }

 private:
  void Visit(const Graph& graph, const SubstringMatcher& matcher) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!node.alive) continue;
      for (const Graph* body : node.Subgraphs()) Visit(*body, matcher);
      const std::optional<size_t> winner = index_.RuleOf(graph, NodeId{static_cast<int32_t>(i)});
      if (!winner) continue;
      std::optional<size_t> loser = matcher.Match(node.name);
      if (!loser) loser = matcher.Match(ModulePath(node));
      if (loser) winners_.emplace(rule_of_candidate_[*loser], *winner);
    }
  }

  const LayeringIndex& index_;
  LayerRules candidates_{RuleMode::kName, {}};
  std::vector<size_t> rule_of_candidate_;
  std::map<size_t, size_t> winners_;
};

}  // namespace

std::vector<RuleOutcome> SummarizeRules(const Graph& graph, const LayerRules& rules,
                                        const LayeringIndex& index, const std::vector<bool>& usable) {
  const std::map<size_t, size_t> winners = WinnersOver(rules);
  const std::map<size_t, size_t> beaten_by = BeatenRules(rules, index).Find(graph);
  std::vector<RuleOutcome> outcomes;
  for (size_t begin = 0, end = 0; begin < rules.rules.size(); begin = end) {
    const LayerRule& first = rules.rules[begin];
    RuleOutcome outcome{TextOf(first), 0, ""};
    std::optional<size_t> winner;       // over one of them, whatever the model
    std::optional<size_t> winner_here;  // in this model
    for (end = begin; end < rules.rules.size() && rules.rules[end].device == first.device &&
                      rules.rules[end].text == first.text;
         ++end) {
      outcome.nodes += index.CountNodes(end);
      const auto beaten = winners.find(end);
      if (beaten != winners.end()) winner = beaten->second;
      const auto beaten_here = beaten_by.find(end);
      if (beaten_here != beaten_by.end()) winner_here = beaten_here->second;
    }
    if (!usable[begin]) {
      outcome.note = fmt::format("no device answers to '{}'", first.device);
    } else if (winner) {
      outcome.note = fmt::format("can never win: {} comes first", TextOf(rules.rules[*winner]));
    } else if (outcome.nodes == 0 && winner_here) {
      outcome.note = fmt::format("never wins: {} comes first", TextOf(rules.rules[*winner_here]));
    } else if (outcome.nodes == 0) {
      outcome.note = "matched nothing";
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace lamina
