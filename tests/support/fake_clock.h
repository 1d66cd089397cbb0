// A clock that stands still until it is told otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace lamina::testing {

class FakeClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  void AdvanceNs(int64_t by_ns) { now_ns_ += by_ns; }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace lamina::testing
