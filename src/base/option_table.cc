#include "base/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "base/byte_size.h"
#include "base/edit_distance.h"
#include "base/error.h"

namespace lamina {
namespace {

constexpr double kNoLow = std::numeric_limits<double>::lowest();
constexpr double kNoHigh = std::numeric_limits<double>::max();

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string RangeText(const OptionSpec& spec) {
  const auto bound = [&](double value) {
    if (spec.type == OptionType::kBytes) return FormatByteSize(static_cast<uint64_t>(value));
    return fmt::format("{}", value);
  };
  const bool has_low = spec.range.low != kNoLow;
  const bool has_high = spec.range.high != kNoHigh;
  if (has_low && has_high) return fmt::format("{} to {}", bound(spec.range.low), bound(spec.range.high));
  if (has_low) return fmt::format("at least {}", bound(spec.range.low));
  if (has_high) return fmt::format("at most {}", bound(spec.range.high));
  return "";
}

std::string TypeText(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kBool:
      return "1 or 0";
    case OptionType::kInt:
      return "a whole number";
    case OptionType::kFloat:
      return "a number";
    case OptionType::kBytes:
      return "a size such as 6GiB";
    case OptionType::kString:
      return "text";
    case OptionType::kEnum:
      return fmt::format("one of {}", fmt::join(spec.choices, ", "));
  }
  return "";
}

// "a whole number of tokens, 1 to 4096".
std::string Expected(const OptionSpec& spec) {
  std::string text = TypeText(spec);
  if (!spec.unit.empty()) text += " of " + spec.unit;
  const std::string range = RangeText(spec);
  if (!range.empty()) text += ", " + range;
  return text;
}

bool InRange(const OptionSpec& spec, double value) {
  return value >= spec.range.low && value <= spec.range.high;
}

// Text inside a cell of a Markdown table.
std::string Cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

}  // namespace

OptionTable::OptionTable(std::vector<OptionSpec> specs, std::vector<std::string> ignored_keys)
    : specs_(std::move(specs)), ignored_keys_(std::move(ignored_keys)) {
  for (size_t i = 0; i < specs_.size(); ++i) index_.emplace(specs_[i].key, i);
}

const OptionSpec* OptionTable::Find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &specs_[found->second];
}

bool OptionTable::IsIgnored(std::string_view key) const {
  return std::find(ignored_keys_.begin(), ignored_keys_.end(), key) != ignored_keys_.end();
}

Status OptionTable::CheckConsistent() const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    const OptionSpec& spec = specs_[i];
    if (index_.at(spec.key) != i) return InternalError("option '{}' is in the table twice", spec.key);
    if (IsIgnored(spec.key)) return InternalError("option '{}' is known and ignored", spec.key);
    if (spec.meaning.empty()) return InternalError("option '{}' has no meaning", spec.key);
    if ((spec.type == OptionType::kEnum) == spec.choices.empty()) {
      return InternalError("option '{}' needs choices exactly where it is an enum", spec.key);
    }
    if (spec.default_text.empty()) continue;
    const auto parsed = OptionValues::Parse(spec, spec.default_text);
    if (!parsed.ok()) return InternalError("default of {}", parsed.status().message());
  }
  return Status();
}

Status OptionTable::UnknownKey(std::string_view key) const {
  std::vector<std::string> keys;
  keys.reserve(specs_.size());
  for (const OptionSpec& spec : specs_) keys.push_back(spec.key);
  const std::string nearest = NearestWord(key, keys);
  if (nearest.empty()) return InvalidArgumentError("unknown option '{}'", key);
  return InvalidArgumentError("unknown option '{}'; did you mean '{}'?", key, nearest);
}

std::string OptionTable::ToMarkdown() const {
  std::string text =
      "# Options\n\n"
      "Set with `--option KEY=VALUE` on the command line or by name in `SessionOptions`.\n\n"
      "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const OptionSpec& spec : specs_) {
    const std::string otherwise =
        spec.default_text.empty() ? Cell(spec.when_unset) : Code(Cell(spec.default_text));
    text += fmt::format("| {} | {} | {} | {} |\n", Code(Cell(spec.key)), Cell(Expected(spec)), otherwise,
                        Cell(spec.meaning));
  }
  return text;
}

Result<OptionValues::Value> OptionValues::Parse(const OptionSpec& spec, std::string_view text) {
  const auto wrong = [&] {
    return InvalidArgumentError("option '{}': expected {}, found '{}'", spec.key, Expected(spec), text);
  };
  switch (spec.type) {
    case OptionType::kBool:
      if (text == "1" || text == "true") return Value(true);
      if (text == "0" || text == "false") return Value(false);
      return wrong();
    case OptionType::kInt: {
      const auto value = ParseNumber<int64_t>(text);
      if (!value || !InRange(spec, static_cast<double>(*value))) return wrong();
      return Value(*value);
    }
    case OptionType::kFloat: {
      const auto value = ParseNumber<double>(text);
      if (!value || !std::isfinite(*value) || !InRange(spec, *value)) return wrong();
      return Value(*value);
    }
    case OptionType::kBytes: {
      const auto value = ParseByteSize(text);
      if (!value.ok() || !InRange(spec, static_cast<double>(*value))) return wrong();
      return Value(*value);
    }
    case OptionType::kString:
      return Value(std::string(text));
    case OptionType::kEnum:
      if (std::find(spec.choices.begin(), spec.choices.end(), text) == spec.choices.end()) return wrong();
      return Value(std::string(text));
  }
  return wrong();
}

Result<OptionOutcome> OptionValues::Give(std::string_view key, std::string_view value, OptionSource source) {
  const OptionSpec* spec = table_->Find(key);
  if (spec == nullptr) {
    if (source == OptionSource::kUser) return table_->UnknownKey(key);
    return table_->IsIgnored(key) ? OptionOutcome::kIgnoredWithNotice : OptionOutcome::kUnknownWithWarning;
  }
  LAMINA_ASSIGN_OR_RETURN(Value parsed, Parse(*spec, value));
  const auto before = given_.find(key);
  const bool keeps_users =
      before != given_.end() && before->second.source == OptionSource::kUser && source != OptionSource::kUser;
  if (!keeps_users) {
    given_.insert_or_assign(std::string(key), Entry{std::string(value), std::move(parsed), source});
  }
  return OptionOutcome::kSet;
}

Status OptionValues::Set(std::string_view key, std::string_view value) {
  return Give(key, value, OptionSource::kUser).status();
}

Status OptionValues::SetFromFlag(std::string_view key_and_value) {
  const size_t equals = key_and_value.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return InvalidArgumentError("option '{}': expected KEY=VALUE", key_and_value);
  }
  return Set(key_and_value.substr(0, equals), key_and_value.substr(equals + 1));
}

bool OptionValues::IsGiven(std::string_view key) const { return given_.find(key) != given_.end(); }

bool OptionValues::HasValue(std::string_view key) const {
  const OptionSpec* spec = table_->Find(key);
  return IsGiven(key) || (spec != nullptr && !spec->default_text.empty());
}

template <typename T>
T OptionValues::Get(std::string_view key) const {
  const auto given = given_.find(key);
  if (given != given_.end()) return std::get<T>(given->second.value);
  const OptionSpec* spec = table_->Find(key);
  assert(spec != nullptr && !spec->default_text.empty());
  return std::get<T>(*Parse(*spec, spec->default_text));
}

bool OptionValues::Bool(std::string_view key) const { return Get<bool>(key); }
int64_t OptionValues::Int(std::string_view key) const { return Get<int64_t>(key); }
double OptionValues::Float(std::string_view key) const { return Get<double>(key); }
uint64_t OptionValues::Bytes(std::string_view key) const { return Get<uint64_t>(key); }
std::string OptionValues::Text(std::string_view key) const { return Get<std::string>(key); }

std::vector<std::pair<std::string, std::string>> OptionValues::Given() const {
  std::vector<std::pair<std::string, std::string>> all;
  all.reserve(given_.size());
  for (const auto& [key, entry] : given_) all.emplace_back(key, entry.text);
  return all;
}

}  // namespace lamina
