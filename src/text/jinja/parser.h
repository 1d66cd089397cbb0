// Tokens to syntax tree.
#pragma once

#include <memory>
#include <string_view>

#include "lamina/status.h"
#include "text/jinja/ast.h"

namespace lamina::jinja {

// The tree with all names resolved. INVALID_MODEL: "line 3: ...".
Result<std::shared_ptr<const ParsedTemplate>> ParseTemplate(std::string_view source);

}  // namespace lamina::jinja
