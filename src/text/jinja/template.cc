#include "text/jinja/template.h"

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

Result<Template> Template::Parse(std::string_view source) {
  constexpr size_t kMaxSourceBytes = size_t{4} << 20;
  if (source.size() > kMaxSourceBytes) {
    return InvalidModelError("template of {} bytes, expected at most {}", source.size(), kMaxSourceBytes);
  }
  if (!IsValidUtf8(source)) return InvalidModelError("template is not valid UTF-8");
  LAMINA_ASSIGN_OR_RETURN(auto parsed, ParseTemplate(source));
  return Template(std::move(parsed));
}

Result<std::string> Template::Render(std::span<const Variable> variables,
                                     const RenderOptions& options) const {
  Interpreter interpreter(options);
  for (const Variable& variable : variables) {
    interpreter.SetVariable(std::string(variable.name), variable.value != nullptr
                                                            ? FromJson(interpreter, *variable.value)
                                                            : Value::None());
  }
  return interpreter.Render(*parsed_);
}

}  // namespace lamina::jinja
