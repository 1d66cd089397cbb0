// Lines from a terminal, with editing and history (libedit).
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace lamina::cli {

// At most one at a time.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Outcome { kLine, kEnd, kInterrupted };
  struct Line {
    Outcome outcome = Outcome::kEnd;
    std::string text;  // without the line break
  };
  // Shows `prompt`. kEnd at end of input (Ctrl-D), kInterrupted on Ctrl-C.
  Line Read(const std::string& prompt);
  void AddToHistory(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamina::cli
