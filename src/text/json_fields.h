// Typed access to the fields of a parsed JSON object, with errors that name the object and the field.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina::text {

// Parses `text`; INVALID_MODEL names `what`. Nesting is limited.
Result<nlohmann::json> ParseJson(std::string_view text, const std::string& what);

// One object of a configuration file. Must not outlive the JSON it looks at.
class JsonFields {
 public:
  // `what` names the object in errors: "pre_tokenizer 'Split'".
  JsonFields(const nlohmann::json& object, std::string what) : object_(object), what_(std::move(what)) {}

  const std::string& what() const { return what_; }
  // Null where the field is absent or null.
  const nlohmann::json* Find(const char* key) const;

  // With a fallback for a field that is absent or null; without, its absence is INVALID_MODEL.
  Result<bool> Bool(const char* key, std::optional<bool> fallback = std::nullopt) const;
  Result<std::string> String(const char* key, std::optional<std::string> fallback = std::nullopt) const;
  Result<uint64_t> Unsigned(const char* key, std::optional<uint64_t> fallback = std::nullopt) const;
  Result<char32_t> Char(const char* key) const;
  // REQUIRED to be there and an array.
  Result<const nlohmann::json*> Array(const char* key) const;

  Status Missing(const char* key) const;
  Status Wrong(const char* key, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  std::string what_;
};

// The "type" of a component; INVALID_MODEL where `component` is no object with one.
Result<std::string> ComponentType(const nlohmann::json& component, std::string_view kind);

}  // namespace lamina::text
