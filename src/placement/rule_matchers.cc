#include "placement/rule_matchers.h"

#include <algorithm>
#include <deque>

namespace lamina {
namespace {

bool IsDigit(char character) { return character >= '0' && character <= '9'; }

// Whether no number that a range gave touches a digit in `name`, where the pattern begins at `begin`.
bool NumbersAreWhole(std::string_view name, size_t begin, const std::vector<LayerRule::Number>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](const LayerRule::Number& number) {
    const size_t first = begin + number.begin;
    const size_t past = begin + number.end;
    return (first == 0 || !IsDigit(name[first - 1])) && (past == name.size() || !IsDigit(name[past]));
  });
}

}  // namespace

LayeringRuleMatcher::LayeringRuleMatcher(const LayerRules& rules) : trie_(1) {
  for (size_t index = 0; index < rules.rules.size(); ++index) {
    const LayerRule& rule = rules.rules[index];
    if (rule.exact) {
      exact_.emplace(rule.pattern, index);
      continue;
    }
    uint32_t node = 0;
    for (const char character : rule.pattern) {
      const auto [child, added] =
          trie_[node].children.emplace(character, static_cast<uint32_t>(trie_.size()));
      node = child->second;
      if (added) trie_.emplace_back();
    }
    if (!trie_[node].rule) trie_[node].rule = index;
  }
}

std::optional<size_t> LayeringRuleMatcher::Match(std::string_view annotation) const {
  if (annotation.empty()) return {};
  std::optional<size_t> best;
  uint32_t node = 0;
  for (const char character : annotation) {
    const auto child = trie_[node].children.find(character);
    if (child == trie_[node].children.end()) break;
    node = child->second;
    const std::optional<size_t> rule = trie_[node].rule;
    if (rule && (!best || *rule < *best)) best = rule;
  }
  if (best) return best;
  const auto exact = exact_.find(std::string(annotation));
  if (exact != exact_.end()) return exact->second;
  return {};
}

std::vector<std::pair<size_t, size_t>> LayeringRuleMatcher::Shadowed(const LayerRules& rules) const {
  std::vector<std::pair<size_t, size_t>> shadowed;
  for (size_t index = 0; index < rules.rules.size(); ++index) {
    // What wins for the pattern itself wins for every annotation that begins with it.
    const std::optional<size_t> winner = Match(rules.rules[index].pattern);
    if (winner && *winner != index) shadowed.emplace_back(index, *winner);
  }
  return shadowed;
}

SubstringMatcher::SubstringMatcher(const LayerRules& rules) : states_(1) {
  for (size_t index = 0; index < rules.rules.size(); ++index) {
    const LayerRule& rule = rules.rules[index];
    patterns_.push_back({rule.pattern.size(), rule.numbers});
    uint32_t state = 0;
    for (const char character : rule.pattern) {
      const auto [next, added] = states_[state].next.emplace(static_cast<unsigned char>(character),
                                                             static_cast<uint32_t>(states_.size()));
      state = next->second;
      if (added) states_.emplace_back();
    }
    states_[state].patterns.push_back(index);
  }
  // Breadth first: the failure state of a state is known before its children are visited.
  std::deque<uint32_t> queue{0};
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    for (const auto& [character, child] : states_[state].next) {
      const uint32_t fail = state == 0 ? 0 : Step(states_[state].fail, character);
      states_[child].fail = fail;
      states_[child].next_output = states_[fail].patterns.empty() ? states_[fail].next_output : fail;
      queue.push_back(child);
    }
  }
}

uint32_t SubstringMatcher::Step(uint32_t state, unsigned char character) const {
  for (;;) {
    const auto next = states_[state].next.find(character);
    if (next != states_[state].next.end()) return next->second;
    if (state == 0) return 0;
    state = states_[state].fail;
  }
}

std::optional<size_t> SubstringMatcher::Match(std::string_view name) const {
  std::optional<size_t> best;
  const auto better = [&](size_t rule) {
    if (!best) return true;
    if (patterns_[rule].length != patterns_[*best].length)
      return patterns_[rule].length > patterns_[*best].length;
    return rule < *best;
  };
  uint32_t state = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    state = Step(state, static_cast<unsigned char>(name[i]));
    const uint32_t first = states_[state].patterns.empty() ? states_[state].next_output : state;
    for (uint32_t output = first; output != 0; output = states_[output].next_output) {
      for (const size_t rule : states_[output].patterns) {
        if (better(rule) && NumbersAreWhole(name, i + 1 - patterns_[rule].length, patterns_[rule].numbers))
          best = rule;
      }
    }
  }
  return best;
}

}  // namespace lamina
