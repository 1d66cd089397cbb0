#include "text/json_fields.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr int kMaxDepth = 128;

// Whether brackets nest deeper than kMaxDepth; of a text that is no JSON the library tells what is wrong.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<nlohmann::json> ParseJson(std::string_view text, const std::string& what) {
  // What walks over the values does so recursively. (The library's callback could watch the depth, but it
  // takes quadratic time for an object of many objects.)
  if (IsTooDeep(text)) return InvalidModelError("{}: JSON nested deeper than {} levels", what, kMaxDepth);
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    return InvalidModelError("{}: {}", what, error.what());
  }
}

const nlohmann::json* JsonFields::Find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Status JsonFields::Missing(const char* key) const {
  return InvalidModelError("{}: field '{}' is missing", what_, key);
}

Status JsonFields::Wrong(const char* key, std::string_view expected) const {
  return InvalidModelError("{}: field '{}': expected {}", what_, key, expected);
}

Result<bool> JsonFields::Bool(const char* key, std::optional<bool> fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback ? Result<bool>(*fallback) : Result<bool>(Missing(key));
  if (!value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

Result<std::string> JsonFields::String(const char* key, std::optional<std::string> fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr)
    return fallback ? Result<std::string>(*std::move(fallback)) : Result<std::string>(Missing(key));
  if (!value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

Result<uint64_t> JsonFields::Unsigned(const char* key, std::optional<uint64_t> fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback ? Result<uint64_t>(*fallback) : Result<uint64_t>(Missing(key));
  if (!value->is_number_unsigned()) return Wrong(key, "a whole number that is not negative");
  return value->get<uint64_t>();
}

Result<char32_t> JsonFields::Char(const char* key) const {
  LAMINA_ASSIGN_OR_RETURN(const std::string text, String(key));
  if (text.empty() || DecodeUtf8(text).length_bytes != text.size()) return Wrong(key, "one character");
  return DecodeUtf8(text).code;
}

Result<const nlohmann::json*> JsonFields::Array(const char* key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return Missing(key);
  if (!value->is_array()) return Wrong(key, "an array");
  return value;
}

Result<std::string> ComponentType(const nlohmann::json& component, std::string_view kind) {
  const auto type = component.is_object() ? component.find("type") : component.end();
  if (!component.is_object() || type == component.end() || !type->is_string()) {
    return InvalidModelError("{}: expected an object with a 'type'", kind);
  }
  return type->get<std::string>();
}

}  // namespace lamina::text
