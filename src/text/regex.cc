#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "text/regex_translate.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;  // steps of one search
constexpr size_t kJitStackBytes = 8 << 20;

std::string Pcre2Message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  bool jit = false;
  std::string pattern;
};

struct Regex::Matcher::Memory {
  explicit Memory(const pcre2_code* code)
      : match(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(context, kMatchLimit);
  }
  ~Memory() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    if (stack != nullptr) pcre2_jit_stack_free(stack);
  }
  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;
};

Result<Regex> Regex::Compile(const std::string& pattern) {
  if (ValidUtf8Prefix(pattern) != pattern.size()) {
    return InvalidModelError("regular expression is not valid UTF-8");
  }
  LAMINA_ASSIGN_OR_RETURN(const std::string translated, TranslateRegex(pattern));
  auto code = std::make_shared<Code>();
  code->pattern = pattern;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr) {
    return InvalidModelError("regular expression '{}': {}", pattern, Pcre2Message(error));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Regex::Matcher::Matcher(const Regex& regex)
    : regex_(regex), memory_(std::make_unique<Memory>(regex.code_->code)) {}
Regex::Matcher::~Matcher() = default;

void Regex::Matcher::Start(std::string_view text) {
  text_ = text;
  next_start_ = 0;
  last_match_end_ = SIZE_MAX;
}

Result<bool> Regex::Matcher::Next(size_t& begin, size_t& end) {
  const Code& code = *regex_.code_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  while (next_start_ <= text_.size()) {
    int count = code.jit ? pcre2_jit_match(code.code, subject, text_.size(), next_start_, 0, memory_->match,
                                           memory_->context)
                         : pcre2_match(code.code, subject, text_.size(), next_start_, PCRE2_NO_UTF_CHECK,
                                       memory_->match, memory_->context);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT && memory_->stack == nullptr) {
      memory_->stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
      pcre2_jit_stack_assign(memory_->context, nullptr, memory_->stack);
      continue;
    }
    if (count == PCRE2_ERROR_NOMATCH) {
      next_start_ = text_.size() + 1;
      return false;
    }
    if (count < 0) {
      return ResourceExhaustedError("regular expression '{}': {}", code.pattern, Pcre2Message(count));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory_->match);
    // \K in a lookahead can put the start behind the end.
    begin = bounds[0] < bounds[1] ? bounds[0] : bounds[1];
    end = bounds[1];
    if (begin == end && end == last_match_end_) {
      next_start_ += next_start_ < text_.size() ? Utf8Length(text_[next_start_]) : 1;
      continue;
    }
    next_start_ = end;
    last_match_end_ = end;
    return true;
  }
  return false;
}

}  // namespace lamina::text
