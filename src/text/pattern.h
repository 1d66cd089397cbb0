// The pattern of Split and Replace: a literal string or a regular expression.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/regex.h"

namespace lamina::text {

class Pattern {
 public:
  // {"String": text} or {"Regex": text}; `what` names the component in errors.
  static Result<Pattern> FromJson(const nlohmann::json& json, const std::string& what);
  static Result<Pattern> Literal(std::string text);
  static Result<Pattern> Expression(const std::string& regex);

  // The string, where the pattern is one and not empty.
  const std::string* literal() const { return regex_ ? nullptr : &literal_; }

  // Finds matches one after another; see Regex::Matcher.
  class Matcher {
   public:
    explicit Matcher(const Pattern& pattern) : pattern_(pattern) {
      if (pattern.regex_) regex_.emplace(*pattern.regex_);
    }
    void Start(std::string_view text) {
      text_ = text;
      next_ = 0;
      if (regex_) regex_->Start(text);
    }
    Result<bool> Next(size_t& begin, size_t& end);

   private:
    const Pattern& pattern_;
    std::optional<Regex::Matcher> regex_;
    std::string_view text_;
    size_t next_ = 0;
  };

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace lamina::text
