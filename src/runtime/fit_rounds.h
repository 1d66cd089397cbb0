// Fitting again: a placement is chosen before the graph is made ready to run there, and for the memory that
// is free then. Where the ready graph needs more than was foreseen, or memory has gone meanwhile, the model
// is read again and placed with that much less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "placement/placement.h"
#include "runtime/session_config.h"

namespace lamina {

class FitRounds {
 public:
  static constexpr int kMaxRounds = 3;

  // A split that the user fixed (session.gpu_layers, session.resource_cuda_partitioning_settings) is fitted
  // once.
  explicit FitRounds(const SessionConfig& config);

  // Whether another round may cure `status`, the outcome of planning: it is a shortage of one of `devices`,
  // and rounds are left. The shortage is then part of withheld_bytes().
  bool TryAgain(const Status& status, std::span<const PlacementDevice> devices);
  // By device; empty in the first round.
  std::span<const uint64_t> withheld_bytes() const { return withheld_bytes_; }
  // What to report where no further round is made: instead of a later shortage that of the first round, which
  // is of the whole budget.
  Status Outcome(const Status& status) const;

 private:
  int rounds_left_;
  std::vector<uint64_t> withheld_bytes_;
  Status first_shortage_;
};

}  // namespace lamina
