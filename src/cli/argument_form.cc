#include "cli/argument_form.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string>

namespace lamina::cli {
namespace {

bool IsWholeNumber(const std::string& text) {
  const size_t digits = text.starts_with('-') ? 1 : 0;
  return text.size() > digits && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(digits), text.end(),
                                             [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNumber(const std::string& text) {
  double value = 0;
  const char* limit = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), limit, value);
  return end == limit && (error == std::errc() || error == std::errc::result_out_of_range);
}

bool HasForm(const std::string& text, ArgumentForm form) {
  switch (form) {
    case ArgumentForm::kText:
      return true;
    case ArgumentForm::kNumber:
      return IsNumber(text);
    case ArgumentForm::kWholeNumber:
      return IsWholeNumber(text);
    case ArgumentForm::kWholeNumberOrMax:
      return text == "max" || IsWholeNumber(text);
    case ArgumentForm::kWholeNumberOrAll:
      return text == "all" || IsWholeNumber(text);
    case ArgumentForm::kAssignment:
      return text.find('=') != std::string::npos && text[0] != '=';
  }
  return true;
}

const char* Describe(ArgumentForm form) {
  switch (form) {
    case ArgumentForm::kText:
      return "text";
    case ArgumentForm::kNumber:
      return "a number";
    case ArgumentForm::kWholeNumber:
      return "a whole number";
    case ArgumentForm::kWholeNumberOrMax:
      return "a whole number or max";
    case ArgumentForm::kWholeNumberOrAll:
      return "a whole number or all";
    case ArgumentForm::kAssignment:
      return "KEY=VALUE";
  }
  return "";
}

}  // namespace

void RequireForm(CLI::Option& option, ArgumentForm form) {
  option.check(
      [form](const std::string& text) {
        return HasForm(text, form) ? std::string()
                                   : fmt::format("expected {}, found '{}'", Describe(form), text);
      },
      "");
}

}  // namespace lamina::cli
