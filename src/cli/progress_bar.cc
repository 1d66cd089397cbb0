#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/byte_size.h"

namespace lamina::cli {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(200);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      enabled_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      next_draw_(start_ + kFirstDraw) {}

ProgressBar::~ProgressBar() { Finish(); }

void ProgressBar::Update(uint64_t done_bytes, uint64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || total_bytes == 0 || now < next_draw_) return;
  next_draw_ = now + kInterval;
  drawn_ = true;
  const double share = static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double bytes_per_s = static_cast<double>(done_bytes) / seconds;
  const int filled = static_cast<int>(share * kWidth);
  const double left_s = bytes_per_s > 0 ? static_cast<double>(total_bytes - done_bytes) / bytes_per_s : 0;
  fmt::print(stderr, "\r{} [{:<{}}] {:3.0f} %  {} of {}  {:.2f} GB/s  {:.0f} s left\033[K", label_,
             std::string(static_cast<size_t>(filled), '='), kWidth, share * 100, FormatByteSize(done_bytes),
             FormatByteSize(total_bytes), bytes_per_s / 1e9, left_s);
  std::fflush(stderr);
}

void ProgressBar::Finish() {
  if (drawn_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  drawn_ = false;
  enabled_ = false;
}

}  // namespace lamina::cli
