// Rules that assign layers to devices: "gpu(layers.[0-15], embed); cpu(lm_head)".
//
//   settings := entry (';' entry)*        entries trimmed, empty ones skipped
//   entry    := device '(' list ')'
//   list     := item (',' item)*          items trimmed, empty ones skipped
//   item     := ['='] pattern             '=': exact, annotation mode only
//
// A range [a-b] in a pattern of name mode stands for each number in it (decimal, inclusive, no leading
// zeros); several ranges multiply, and a number that a range gave must not touch further digits in the name
// it matches. Anything left over (text after ')', a second '(', ',' where ';' was meant) is an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"

namespace lamina {

enum class RuleMode {
  kAnnotation,  // session.layer_assignment_settings: prefix of, or exactly, a node's `layer_ann`
  kName,        // session.name_based_layer_assignment: substring of a node's name or module path
};

// One pattern with its device. The index in LayerRules is its priority among equals.
struct LayerRule {
  std::string device;   // designator as written, trimmed
  std::string pattern;  // expanded
  bool exact = false;
  // Positions in `pattern` of numbers that came from a range: [begin, end).
  struct Number {
    size_t begin = 0;
    size_t end = 0;
  };
  std::vector<Number> numbers;
  std::string text;  // the item as written, before expansion
};

struct LayerRules {
  RuleMode mode = RuleMode::kAnnotation;
  std::vector<LayerRule> rules;
};

// At most this many rules after expansion.
inline constexpr size_t kMaxLayerRules = 100'000;

// INVALID_ARGUMENT names the entry and what is wrong with it: the grammar, a duplicate pattern of one kind
// (whatever the device), '=' in name mode, a malformed or too large range.
Result<LayerRules> ParseLayerRules(std::string_view settings, RuleMode mode);

}  // namespace lamina
