// What units (units.h) cost on one device as far as it adds up: what the budget fit compares choices by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "placement/placement.h"
#include "plan/memory_model.h"
#include "plan/units.h"

namespace lamina {

// The costs of all units on the device, if it had them all; weights of nodes in no unit do not count.
class UnitCosts {
 public:
  // `all_here`: the placement of every node if all units were given to the device. Errors of the model.
  static Result<UnitCosts> Make(const MemoryModel& memory, std::span<const PlacementUnit> units,
                                const Placement& all_here, int32_t device);

  // Sums over a growing set of units.
  class Sum {
   public:
    explicit Sum(const UnitCosts& costs)
        : costs_(costs), shared_counted_(costs.shared_bytes_.size(), false) {}
    void Add(size_t unit);
    uint64_t resident_bytes() const { return weights_bytes_ + kv_bytes_; }
    // No placement with these units on the device allocates less there.
    uint64_t least_allocated_bytes() const;

   private:
    const UnitCosts& costs_;
    std::vector<bool> shared_counted_;
    uint64_t weights_bytes_ = 0;
    uint64_t kv_bytes_ = 0;
    uint64_t frame_bytes_ = 0;
    uint64_t packing_bytes_ = 0;
  };

  // Weights and KV cache of one unit by itself.
  uint64_t Resident(size_t unit) const;
  // All units by their resident bytes; equal ones in order.
  const std::vector<size_t>& smallest_first() const { return smallest_first_; }

 private:
  struct Cost {
    uint64_t weights_bytes = 0;  // that no other unit reads
    uint64_t kv_bytes = 0;
    uint64_t frame_bytes = 0;    // that a frame has at least in the unit's steps
    uint64_t packing_bytes = 0;  // MemoryModel::PackingBytes
    std::vector<size_t> shared;  // weights that others read too: positions in shared_bytes_
  };
  UnitCosts(const MemoryModel& memory, int32_t device) : memory_(memory), device_(device) {}

  const MemoryModel& memory_;
  int32_t device_;
  std::vector<Cost> costs_;  // by unit
  std::vector<uint64_t> shared_bytes_;
  std::vector<size_t> smallest_first_;
};

}  // namespace lamina
