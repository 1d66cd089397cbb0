#include "weights/load/read_tuner.h"

#include <algorithm>

namespace lamina {
namespace {

// What a setting must gain over the best before it. Where depth matters it gains far more; less is the disk's
// jitter.
constexpr double kWorthwhile = 1.1;
constexpr int kBufferedDepth = 4;

}  // namespace

ReadTuner::ReadTuner(bool direct_possible, int most_depth, uint64_t trial_bytes)
    : most_depth_(std::max(1, most_depth)), trial_bytes_(trial_bytes), climbing_direct_(direct_possible) {
  StartTrial({direct_possible, 1});
}

void ReadTuner::StartTrial(const ReadSetting& setting) {
  current_ = setting;
  done_bytes_ = 0;
  trial_start_ns_ = -1;
}

void ReadTuner::Finished(const ReadSetting& setting, uint64_t bytes, int64_t now_ns) {
  if (settled_ || setting != current_) return;
  if (trial_start_ns_ < 0) {  // the first read ran beside those of the setting before
    trial_start_ns_ = now_ns;
    return;
  }
  done_bytes_ += bytes;
  if (done_bytes_ < trial_bytes_ || now_ns <= trial_start_ns_) return;
  EndTrial(static_cast<double>(done_bytes_) * 1e9 / static_cast<double>(now_ns - trial_start_ns_));
}

void ReadTuner::EndTrial(double bytes_per_s) {
  const bool improved = bytes_per_s > best_bytes_per_s_ * (best_bytes_per_s_ > 0 ? kWorthwhile : 1);
  if (improved) {
    best_bytes_per_s_ = bytes_per_s;
    best_ = current_;
  }
  const bool was_step = current_.direct == climbing_direct_;
  if (was_step && improved && current_.depth * 2 <= most_depth_) {
    StartTrial({climbing_direct_, current_.depth * 2});
  } else if (was_step && climbing_direct_) {
    StartTrial({false, std::min(kBufferedDepth, most_depth_)});
  } else {
    settled_ = true;
    current_ = best_;
  }
}

void ReadTuner::GiveUpDirect() {
  if (!climbing_direct_) return;
  climbing_direct_ = false;
  settled_ = false;
  best_bytes_per_s_ = 0;
  StartTrial({false, 1});
}

}  // namespace lamina
