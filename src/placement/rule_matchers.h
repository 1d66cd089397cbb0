// Which rule a node falls under.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "placement/layer_rules.h"

namespace lamina {

// Annotation mode: a trie of prefixes and a table of exact annotations. Among matching prefixes the first
// rule of the settings wins; a prefix wins over an exact annotation. Time: the length of the annotation.
class LayeringRuleMatcher {
 public:
  explicit LayeringRuleMatcher(const LayerRules& rules);
  // The index of the rule; nothing for an empty or unmatched annotation.
  std::optional<size_t> Match(std::string_view annotation) const;
  // Rules that can never win: a prefix rule that an earlier, shorter prefix always beats, or an exact rule
  // that a prefix rule matches. Pairs (loser, winner).
  std::vector<std::pair<size_t, size_t>> Shadowed(const LayerRules& rules) const;

 private:
  struct TrieNode {
    std::map<char, uint32_t> children;
    std::optional<size_t> rule;
  };
  std::vector<TrieNode> trie_;
  std::unordered_map<std::string, size_t> exact_;
};

// Name mode: the longest pattern that occurs in the name wins, ties by order in the settings. Patterns are
// searched together (Aho-Corasick), so the time is the length of the name and not the number of patterns.
class SubstringMatcher {
 public:
  explicit SubstringMatcher(const LayerRules& rules);
  std::optional<size_t> Match(std::string_view name) const;

 private:
  struct State {
    std::map<unsigned char, uint32_t> next;
    uint32_t fail = 0;
    uint32_t next_output = 0;      // the nearest state on the chain of failures where patterns end; 0: none
    std::vector<size_t> patterns;  // rules whose pattern ends here
  };
  uint32_t Step(uint32_t state, unsigned char character) const;

  struct Pattern {
    size_t length = 0;
    std::vector<LayerRule::Number> numbers;
  };
  std::vector<State> states_;
  std::vector<Pattern> patterns_;  // by rule
};

}  // namespace lamina
