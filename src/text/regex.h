// A compiled regular expression of a tokenizer file. PCRE2 with its just-in-time compiler.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina::text {

// Immutable; may be shared by threads, each with a matcher of its own.
class Regex {
 public:
  // `pattern` in Oniguruma's Ruby syntax. INVALID_MODEL where it does not compile.
  static Result<Regex> Compile(const std::string& pattern);

  // Finds matches one after another, with memory of its own that is kept between texts. Not thread-safe; must
  // not outlive the regex.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(Matcher&&) = delete;

    // Starts on `text`, which must be valid UTF-8 and outlive the search.
    void Start(std::string_view text);
    // The next match as [begin, end); false where there is none. An empty match right after another match
    // does not count. RESOURCE_EXHAUSTED where the pattern needs more steps or stack than any sensible one.
    Result<bool> Next(size_t& begin, size_t& end);

   private:
    struct Memory;
    const Regex& regex_;
    std::unique_ptr<Memory> memory_;
    std::string_view text_;
    size_t next_start_ = 0;
    size_t last_match_end_ = SIZE_MAX;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace lamina::text
