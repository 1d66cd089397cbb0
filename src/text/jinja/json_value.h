// JSON values as values of a rendering.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// Invalid UTF-8 in strings is replaced. Fails where the value is nested too deeply or too large.
Value FromJson(Runtime& runtime, const nlohmann::ordered_json& json);

}  // namespace lamina::jinja
