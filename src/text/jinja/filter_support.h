// What several filters share: looking up attributes by path, and Jinja2's case-insensitive keys.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// The filter argument `attribute`: "a.b.0" or an index; nothing selects the item itself.
class AttributeGetter {
 public:
  // `attribute` and `fallback` missing or None: none. `ignore_case`: strings come out in lower case.
  AttributeGetter(const Value& attribute, const Value& fallback, bool ignore_case);
  Value operator()(Runtime& runtime, Value item) const;

 private:
  std::vector<Value> parts_;
  Value fallback_;
  bool ignore_case_;
};

// The parts of a path as keys: digits are indexes.
std::vector<Value> SplitAttributePath(const Value& attribute);
// Strings in lower case, other values as they are.
Value IgnoreCase(Runtime& runtime, const Value& value);

// Sorts by key, stable, as Python's sorted does.
using KeyedItems = std::vector<std::pair<Value, Value>>;
void SortByKey(Runtime& runtime, KeyedItems* items, bool reverse);

// An optional argument.
bool TruthyOr(Runtime& runtime, const Value& value, bool fallback);
// An optional int argument; nothing after a failure.
std::optional<Int> IndexOr(Runtime& runtime, const Value& value, std::string_view what, Int fallback);

}  // namespace lamina::jinja
