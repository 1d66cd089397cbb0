// Ctrl-C while a model answers: the first stops the answer, a second one leaves.
#pragma once

#include "lamina/session.h"

namespace lamina::cli {

// While it lives, SIGINT and SIGTERM cancel `token`; another one ends the process with 128 + the signal's
// number. At most one at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(CancelToken& token);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Whether a signal came.
  bool interrupted() const;
};

}  // namespace lamina::cli
