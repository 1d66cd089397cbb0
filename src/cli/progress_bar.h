// A bar on the terminal while something long happens; silent where standard error is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lamina::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  // Clears the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second, and not at all in the first fifth of a second.
  void Update(uint64_t done_bytes, uint64_t total_bytes);
  void Finish();

 private:
  std::string label_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_draw_;
};

}  // namespace lamina::cli
