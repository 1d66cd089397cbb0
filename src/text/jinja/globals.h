// The functions that every template can call: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// Missing where there is no such function.
Value FindGlobal(Runtime& runtime, std::string_view name);

}  // namespace lamina::jinja
