// Tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

bool IsTest(std::string_view name);
// Fails where there is no such test.
bool ApplyTest(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace lamina::jinja
