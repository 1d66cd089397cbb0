#include "text/jinja/filters.h"

#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

Filter FindFilter(std::string_view name) {
  if (const Filter filter = FindValueFilter(name)) return filter;
  if (const Filter filter = FindTextFilter(name)) return filter;
  return FindSequenceFilter(name);
}

}  // namespace

bool IsFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Value ApplyFilter(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments) {
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge() || value.missing()) return Value();
  const Filter filter = FindFilter(name);
  if (filter == nullptr) return runtime.Fail("No filter named '{}' found.", name);
  Value result = filter(runtime, value, arguments);
  return runtime.failed() ? Value() : result;
}

std::vector<Value> SplitAttributePath(const Value& attribute) {
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> parts;
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    constexpr size_t kMostDigits = 18;
    const bool index = !part.empty() && part.size() <= kMostDigits &&
                       std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (index) {
      parts.push_back(Value::Integer(std::stoll(std::string(part))));
    } else {
      parts.emplace_back(Kind::kString, std::make_shared<String>(nullptr, std::string(part), false));
    }
    if (dot == rest.size()) return parts;
    rest.remove_prefix(dot + 1);
  }
}

Value IgnoreCase(Runtime& runtime, const Value& value) {
  return value.is_string() ? runtime.MakeString(ToLower(value.text())) : value;
}

AttributeGetter::AttributeGetter(const Value& attribute, const Value& fallback, bool ignore_case)
    : fallback_(fallback), ignore_case_(ignore_case) {
  if (!attribute.missing() && !attribute.is_none()) parts_ = SplitAttributePath(attribute);
}

Value AttributeGetter::operator()(Runtime& runtime, Value item) const {
  for (const Value& part : parts_) {
    item = GetItem(runtime, item, part);
    if (item.is_undefined() && !fallback_.missing() && !fallback_.is_none()) item = fallback_;
  }
  return ignore_case_ ? IgnoreCase(runtime, item) : item;
}

void SortByKey(Runtime& runtime, KeyedItems* items, bool reverse) {
  std::stable_sort(items->begin(), items->end(), [&](const auto& a, const auto& b) {
    if (runtime.failed()) return false;
    return reverse ? Less(runtime, b.first, a.first) : Less(runtime, a.first, b.first);
  });
}

bool TruthyOr(Runtime& runtime, const Value& value, bool fallback) {
  return value.missing() ? fallback : Truthy(runtime, value);
}

std::optional<Int> IndexOr(Runtime& runtime, const Value& value, std::string_view what, Int fallback) {
  return value.missing() ? std::optional<Int>(fallback) : ToIndex(runtime, value, what);
}

}  // namespace lamina::jinja
