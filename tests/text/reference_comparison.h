// Compares a tokenizer with what the reference library answered, in the form that differential/*.mjs writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::testing {

// Adds a test failure for each difference, up to a limit.
class ReferenceComparison {
 public:
  // `name` stands in failures. The tokenizer must outlive this object.
  ReferenceComparison(const Tokenizer& tokenizer, std::string name)
      : tokenizer_(tokenizer), name_(std::move(name)) {}

  // One line: a text with everything about it, or ids to decode.
  void CompareLine(const nlohmann::json& line);
  int lines() const { return lines_; }
  int differences() const { return differences_; }

 private:
  void Expect(const char* what, const nlohmann::json& line, const nlohmann::json& found,
              const nlohmann::json& expected);
  void CompareText(const nlohmann::json& line);
  void CompareDecoding(const nlohmann::json& line, const std::vector<TokenId>& ids);

  const Tokenizer& tokenizer_;
  std::string name_;
  int lines_ = 0;
  int differences_ = 0;
};

// The text that a stream gives for `ids`, piece by piece. Adds a test failure where a piece is no valid
// UTF-8.
std::string StreamAll(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens);

}  // namespace lamina::testing
