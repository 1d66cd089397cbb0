// Options of the simulated accelerator, `ep.sim.KEY`.
#pragma once

#include <cstdint>
#include <string>

#include "lamina/lamina_ep.h"
#include "outcome.h"

namespace sim {

struct Options {
  int32_t devices = 2;                      // devices=2
  uint64_t memory_bytes = 1024ull << 20;    // memory=1GiB, of each device, a multiple of the granularity
  uint64_t granularity_bytes = 64 << 10;    // granularity=64KiB, a multiple of 4096
  double link_bandwidth_bytes_per_s = 0;    // link_bandwidth=0: as fast as host memory
  double memory_bandwidth_bytes_per_s = 0;  // memory_bandwidth=0: told to the host, has no effect
  uint64_t latency_us = 0;                  // latency_us=0: of each copy
  int32_t compute_threads = 1;              // compute_threads=1: of each device's kernels
  std::string without_types;                // without_types=float16,bfloat16: no kernel computes in them
};

// INVALID_ARGUMENT names the key, what was expected and what was found. `given` may be null.
Outcome ParseOptions(const LaminaKeyValues* given, Options* options);

}  // namespace sim
