// What of a decode run can be recorded: its steps in parts, each on one device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/dim_expr.h"
#include "runtime/executable.h"

namespace lamina {

// Consecutive steps on one device that do the same in every run, or one step that does not.
struct DecodePart {
  bool is_recorded = false;
  int32_t device = -1;
  std::vector<int32_t> steps;  // positions in the executable
  // Copies that must have arrived before it.
  std::vector<int32_t> waits;
  // Values that a recorded part makes for others.
  std::vector<int32_t> results;
};

struct DecodeOutline {
  int64_t batch = 0;
  // Without steps that only make what the KV cache knows too.
  std::vector<DecodePart> parts;
  // Copies of inputs (CopySchedule) that the device's first part, a recorded one, can begin with.
  std::vector<int32_t> staged_uploads;
  std::vector<int32_t> other_uploads;
  // By device: whether its first part is recorded, so that the part can begin with copies.
  std::vector<bool> begins_recorded;

  int64_t num_recorded_steps() const;
  int64_t num_steps() const;
  int64_t num_recorded_parts() const;
};

struct DecodeOutlineRequest {
  const Executable* executable = nullptr;
  int32_t num_devices = 0;
  int64_t batch = 1;
  // Of the symbols in shapes, for runs of `batch` sequences with one token each.
  SymbolBounds bounds;
  // By position among the graph's inputs and outputs: those that live in a KV cache.
  const std::vector<bool>* inputs_in_cache = nullptr;
  const std::vector<bool>* outputs_in_cache = nullptr;
};

DecodeOutline OutlineDecode(const DecodeOutlineRequest& request);

}  // namespace lamina
