// Regular expressions of tokenizer.json are Oniguruma's, in its Ruby syntax; PCRE2 runs them here. This
// rewrites what the two read differently: classes (\s \w \d \h \b, POSIX brackets, properties; see
// regex_properties.h), nested and intersected character classes, repeated repetitions (`{n,m}+` is one, not a
// possessive one), `{n}?` (n or none), `{,m}`, (?m) (the dot matches line ends), (?i) (up to the end of the
// group, alternatives included; not for properties outside of brackets), \v (one character). ^ and $ are
// compiled as multi-line by the caller.
#pragma once

#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina::text {

// The pattern for PCRE2 with UTF, UCP and MULTILINE. `pattern` must be valid UTF-8. Errors: UNSUPPORTED for
// syntax that has no counterpart, INVALID_MODEL for what is malformed beyond what PCRE2 itself would report.
Result<std::string> TranslateRegex(std::string_view pattern);

}  // namespace lamina::text
