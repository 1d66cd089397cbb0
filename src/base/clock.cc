#include "base/clock.h"

#include <chrono>

namespace lamina {
namespace {

class MonotonicClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& SystemClock() {
  static const auto* const clock = new MonotonicClock;
  return *clock;
}

}  // namespace lamina
