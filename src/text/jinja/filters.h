// Filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

using Filter = Value (*)(Runtime& runtime, const Value& value, const Arguments& arguments);

struct FilterEntry {
  std::string_view name;
  Filter filter;
};

bool IsFilter(std::string_view name);
// Fails where there is no such filter.
Value ApplyFilter(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

// --- Tables of filters, by the file that implements them; null where the file has none of that name.
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);
Filter FindValueFilter(std::string_view name);

// --- Filters with a file of their own, for the tables.
Value WordWrap(Runtime& runtime, const Value& value, const Arguments& args);     // wrap_filter.cc
Value PrettyPrint(Runtime& runtime, const Value& value, const Arguments& args);  // pretty_print.cc

}  // namespace lamina::jinja
