// The session options: their table, and their values with types.
#pragma once

#include <cstdint>
#include <string>

#include "base/option_table.h"
#include "lamina/session.h"
#include "lamina/status.h"

namespace lamina {

// Every key of SessionOptions; docs/options.md is made from it.
const OptionTable& SessionOptionTable();

struct SessionConfig {
  int num_threads = 0;            // 0: one per physical core
  int context_length_tokens = 0;  // 0: not set
  int max_batch = 1;
  int prefill_chunk_tokens = 512;
  int max_kv_caches = 1;
  int max_concurrent_runs = 1;
  bool pre_allocate_execution_buffers = false;
  bool enable_mem_pattern = true;
  // As given; empty: not set.
  std::string device_memory_budget;
  std::string gpu_layers;
  std::string partitioning_settings;  // session.resource_cuda_partitioning_settings
  std::string node_stats_file;        // session.collect_node_memory_stats_to_file
  std::string max_shape_override;
  int64_t plan_effort = 4;
  bool prepack = true;
  bool record_decode = true;
  bool external_data_strict = false;
  bool verify_checksums = false;
  int last_token_logits = 0;  // tokens; 0: all
  // At most one of the two is set.
  std::string layer_assignment_settings;    // by annotation
  std::string name_based_layer_assignment;  // by name
  bool allow_unmatched_layer_devices = false;
  bool disable_cpu_ep_fallback = false;
  std::string disabled_rewrites;

  static Result<SessionConfig> FromOptions(const SessionOptions& options);
};

// Sets an option that a model's own files ask for: keys of ONNX Runtime without meaning here give a notice in
// the log, others that are unknown a warning. INVALID_ARGUMENT for a value that a known key does not take.
Status SetFromModelFile(SessionOptions& options, const std::string& key, const std::string& value);

}  // namespace lamina
