// The properties and POSIX brackets of the reference library's regular expressions, whose Unicode is younger
// than PCRE2's.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/unicode_tables.h"

namespace lamina::text {

// A class: what `items` and ranges() match together or, where it is negated, all else.
struct RegexProperty {
  std::string_view name;   // lower case, without blanks, hyphens and underscores; "[:alpha:]" for a bracket
  std::string_view items;  // for a character class of PCRE2 with UTF and UCP
  uint32_t ranges_begin = 0;
  uint32_t num_ranges = 0;
  bool negated = false;

  std::span<const CodeRange> ranges() const;  // ascending
};

// Null where the reference has no such class either.
const RegexProperty* FindRegexProperty(std::string_view name);

}  // namespace lamina::text
