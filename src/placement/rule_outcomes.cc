#include "placement/rule_outcomes.h"

#include <fmt/format.h>

#include <map>
#include <optional>

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

}  // namespace

std::vector<RuleOutcome> SummarizeRules(const LayerRules& rules, const LayeringIndex& index,
                                        const std::vector<bool>& usable) {
  const std::map<size_t, size_t> winners = WinnersOver(rules);
  std::vector<RuleOutcome> outcomes;
  for (size_t begin = 0, end = 0; begin < rules.rules.size(); begin = end) {
    const LayerRule& first = rules.rules[begin];
    RuleOutcome outcome{TextOf(first), 0, ""};
    std::optional<size_t> winner;
    for (end = begin; end < rules.rules.size() && rules.rules[end].device == first.device &&
                      rules.rules[end].text == first.text;
         ++end) {
      outcome.nodes += index.CountNodes(end);
      const auto beaten = winners.find(end);
      if (beaten != winners.end()) winner = beaten->second;
    }
    if (!usable[begin]) {
      outcome.note = fmt::format("no device answers to '{}'", first.device);
    } else if (winner) {
      outcome.note = fmt::format("can never win: {} comes first", TextOf(rules.rules[*winner]));
    } else if (outcome.nodes == 0) {
      outcome.note = "matched nothing";
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace lamina
