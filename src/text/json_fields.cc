#include "text/json_fields.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr int kMaxDepth = 128;

}  // namespace

Result<nlohmann::json> ParseJson(std::string_view text, const std::string& what) {
  // The library parses recursively built values without a limit of its own: refuse what is nested absurdly
  // deep.
  bool too_deep = false;
  const auto watch_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  try {
    nlohmann::json value = nlohmann::json::parse(text.begin(), text.end(), watch_depth);
    if (too_deep) return InvalidModelError("{}: JSON nested deeper than {} levels", what, kMaxDepth);
    return value;
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
