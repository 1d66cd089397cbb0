#include "placement/layer_rules.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "base/error.h"

namespace lamina {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The pieces between separators.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// A decimal number without leading zeros, or nothing.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  if (text.size() > 1 && text.front() == '0') return {};
  return value;
}

// Expands the ranges of `item.pattern`.
class RangeExpander {
 public:
  RangeExpander(std::string_view entry, size_t room) : entry_(entry), room_(room) {}

  Result<std::vector<LayerRule>> Expand(const LayerRule& item) {
    std::vector<LayerRule> expanded{item};
    expanded.front().pattern.clear();
    std::string_view rest = item.pattern;
    while (!rest.empty()) {
      const size_t open = rest.find('[');
      const std::string_view literal = rest.substr(0, open);
      for (LayerRule& rule : expanded) rule.pattern += literal;
      if (open == std::string_view::npos) break;
      const size_t close = rest.find(']', open);
      if (close == std::string_view::npos) return Malformed(item, "there is a '[' without ']'");
      const std::string_view range = rest.substr(open + 1, close - open - 1);
      LAMINA_ASSIGN_OR_RETURN(expanded, Multiply(item, std::move(expanded), range));
      rest.remove_prefix(close + 1);
    }
    return expanded;
  }

 private:
  Status Malformed(const LayerRule& item, const std::string& reason) const {
    return InvalidArgumentError("layer rules: in entry '{}': pattern '{}': {}", entry_, item.text, reason);
  }

  Result<std::vector<LayerRule>> Multiply(const LayerRule& item, std::vector<LayerRule> rules,
                                          std::string_view range) {
    const size_t dash = range.find('-');
    if (dash == std::string_view::npos)
      return Malformed(item, fmt::format("expected [low-high], found [{}]", range));
    const std::optional<uint64_t> low = ParseNumber(Trim(range.substr(0, dash)));
    const std::optional<uint64_t> high = ParseNumber(Trim(range.substr(dash + 1)));
    if (!low || !high) {
      return Malformed(item,
                       fmt::format("expected decimal numbers without leading zeros, found [{}]", range));
    }
    if (*low > *high) return Malformed(item, fmt::format("the range [{}] ends before it begins", range));
    if (*high - *low >= kMaxLayerRules || (*high - *low + 1) * rules.size() > room_) {
      return Malformed(item, fmt::format("the ranges give more than {} rules in all", kMaxLayerRules));
    }
    std::vector<LayerRule> product;
    product.reserve((*high - *low + 1) * rules.size());
    for (const LayerRule& rule : rules) {
      for (uint64_t number = *low; number <= *high; ++number) {
        LayerRule& made = product.emplace_back(rule);
        const size_t begin = made.pattern.size();
        made.pattern += std::to_string(number);
        made.numbers.push_back({begin, made.pattern.size()});
      }
    }
    return product;
  }

  std::string_view entry_;
  size_t room_;
};

class RuleParser {
 public:
  explicit RuleParser(RuleMode mode) { parsed_.mode = mode; }

  Result<LayerRules> Parse(std::string_view settings) {
    for (const std::string_view piece : Split(settings, ';')) {
      const std::string_view entry = Trim(piece);
      if (!entry.empty()) LAMINA_RETURN_IF_ERROR(ParseEntry(entry));
    }
    return std::move(parsed_);
  }

 private:
  static Status Malformed(std::string_view entry, std::string_view reason) {
    return InvalidArgumentError("layer rules: {} in entry '{}'", reason, entry);
  }

  Status ParseEntry(std::string_view entry) {
    const size_t open = entry.find('(');
    const size_t close = entry.find(')');
    if (open == std::string_view::npos) return Malformed(entry, "there is no '('");
    if (close == std::string_view::npos) return Malformed(entry, "there is no ')'");
    if (close < open) return Malformed(entry, "')' comes before '('");
    const std::string_view device = Trim(entry.substr(0, open));
    if (device.empty()) return Malformed(entry, "the device is missing");
    const std::string_view list = entry.substr(open + 1, close - open - 1);
    if (list.find('(') != std::string_view::npos) return Malformed(entry, "there is a second '('");
    const std::string_view left_over = Trim(entry.substr(close + 1));
    if (!left_over.empty()) {
      return Malformed(entry, fmt::format("'{}' stands after ')'{}", left_over,
                                          left_over.front() == ',' ? " (entries are separated by ';')" : ""));
    }
    for (const std::string_view piece : Split(list, ',')) {
      const std::string_view item = Trim(piece);
      if (!item.empty()) LAMINA_RETURN_IF_ERROR(AddItem(entry, device, item));
    }
    return Status();
  }

  Status AddItem(std::string_view entry, std::string_view device, std::string_view item) {
    LayerRule rule;
    rule.device = device;
    rule.text = item;
    rule.exact = item.front() == '=';
    rule.pattern = rule.exact ? Trim(item.substr(1)) : item;
    if (rule.exact && parsed_.mode == RuleMode::kName) {
      return Malformed(
          entry, fmt::format("name-based rules take no '=' (every pattern is a substring): '{}'", item));
    }
    if (rule.pattern.empty()) return Status();
    std::vector<LayerRule> expanded{rule};
    if (rule.pattern.find('[') != std::string::npos) {
      LAMINA_ASSIGN_OR_RETURN(expanded,
                              RangeExpander(entry, kMaxLayerRules - parsed_.rules.size()).Expand(rule));
    }
    if (parsed_.rules.size() + expanded.size() > kMaxLayerRules) {
      return InvalidArgumentError("layer rules: more than {} rules", kMaxLayerRules);
    }
    for (LayerRule& made : expanded) {
      if (!seen_.insert((made.exact ? "=" : " ") + made.pattern).second) {
        return Malformed(entry, fmt::format("the {}pattern '{}' was given before", made.exact ? "exact " : "",
                                            made.pattern));
      }
      parsed_.rules.push_back(std::move(made));
    }
    return Status();
  }

  LayerRules parsed_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

Result<LayerRules> ParseLayerRules(std::string_view settings, RuleMode mode) {
  return RuleParser(mode).Parse(settings);
}

}  // namespace lamina
