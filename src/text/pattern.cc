#include "text/pattern.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lamina::text {

Result<Pattern> Pattern::FromJson(const nlohmann::json& json, const std::string& what) {
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    if (json.contains("String")) return Literal(json["String"].get<std::string>());
    if (json.contains("Regex")) {
      Result<Pattern> pattern = Expression(json["Regex"].get<std::string>());
      if (!pattern.ok()) return pattern.status().WithContext(what);
      return pattern;
    }
  }
  return InvalidModelError("{}: pattern: expected {{\"String\": text}} or {{\"Regex\": text}}", what);
}

Result<Pattern> Pattern::Literal(std::string text) {
  if (text.empty()) return Expression("");  // matches between all characters
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Result<Pattern> Pattern::Expression(const std::string& regex) {
  LAMINA_ASSIGN_OR_RETURN(Regex compiled, Regex::Compile(regex));
  Pattern pattern;
  pattern.regex_ = std::move(compiled);
  return pattern;
}

Result<bool> Pattern::Matcher::Next(size_t& begin, size_t& end) {
  if (regex_) return regex_->Next(begin, end);
  begin = text_.find(pattern_.literal_, next_);
  if (begin == std::string_view::npos) return false;
  end = next_ = begin + pattern_.literal_.size();
  return true;
}

}  // namespace lamina::text
