// Standard output of a command. Results are written here and nowhere else; a full disk or a reader that has
// gone away is seen at the next Flush.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "lamina/status.h"

namespace lamina::cli {

class Output {
 public:
  explicit Output(std::FILE* file) : file_(file) {}

  void Write(std::string_view text);
  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    Write(fmt::format(format, std::forward<Args>(args)...));
  }
  // Hands everything written so far to the system. IO where that or an earlier write failed; text that
  // streams is flushed piece by piece, and its producer stops at an error.
  Status Flush();
  // True where the reader of a pipe has gone: the command ends without a message.
  bool reader_gone() const { return reader_gone_; }

  bool IsTerminal() const;

 private:
  void RememberError();

  std::FILE* file_;
  int error_number_ = 0;  // errno of the first failed write
  bool reader_gone_ = false;
};

}  // namespace lamina::cli
