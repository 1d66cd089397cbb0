#include "runtime/session_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

constexpr int kMaxInt = 2147483647;

std::vector<OptionSpec> Specs() {
  return {
      {.key = "session.intra_op_num_threads",
       .type = OptionType::kInt,
       .default_text = "0",
       .unit = "threads",
       .range = {0, 4096},
       .meaning = "Threads that compute on the CPU, the calling one included; 0 is one per physical core. "
                  "Read where the "
                  "environment is made"},
      {.key = "session.context_length",
       .type = OptionType::kInt,
       .unit = "tokens",
       .range = {1, kMaxInt},
       .meaning = "Tokens that a sequence of the KV cache may have",
       .when_unset = "the smaller of the model's and 4096"},
      {.key = "session.max_batch",
       .type = OptionType::kInt,
       .default_text = "1",
       .unit = "sequences",
       .range = {1, 65536},
       .meaning = "Sequences that one run may have"},
      {.key = "session.prefill_chunk",
       .type = OptionType::kInt,
       .default_text = "512",
       .unit = "tokens",
       .range = {1, kMaxInt},
       .meaning = "Prompt tokens that one run may have; longer prompts are run in chunks"},
      {.key = "session.max_kv_caches",
       .type = OptionType::kInt,
       .default_text = "1",
       .unit = "caches",
       .range = {0, 4096},
       .meaning = "KV caches that are allocated when the session is loaded"},
      {.key = "session.max_concurrent_runs",
       .type = OptionType::kInt,
       .default_text = "1",
       .unit = "runs",
       .range = {1, 4096},
       .meaning =
           "Runs of a planned session that may happen at the same time, each with an execution buffer of its "
           "own; one more waits"},
      {.key = "session.pre_allocate_execution_buffers",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Refuse a model whose sizes have no bounds, and let one run more than "
                  "session.max_concurrent_runs fail instead of wait"},
      {.key = "session.enable_mem_pattern",
       .type = OptionType::kBool,
       .default_text = "1",
       .meaning =
           "Runs without a planned frame whose input shapes were seen twice take one block of memory on "
           "each device"},
      {.key = "session.use_device_allocator_for_initializers",
       .type = OptionType::kBool,
       .default_text = "1",
       .meaning = "Weights come straight from the device's memory; they always do, never from an arena, so 0 "
                  "changes nothing"},
      {.key = "session.device_memory_budget",
       .type = OptionType::kString,
       .meaning = "Memory that the plan may allocate on each device: gpu:0=6GiB; gpu:1=75%; a bare amount is "
                  "for every "
                  "GPU, free-512MiB is relative to what is free",
       .when_unset = "what is free"},
      {.key = "session.gpu_layers",
       .type = OptionType::kString,
       .meaning =
           "How many of the last layers to place on accelerators, or all; more than the layers includes the "
           "head. A budget that is too small for them is an error",
       .when_unset = "as many as fit"},
      {.key = "session.resource_cuda_partitioning_settings",
       .type = OptionType::kString,
       .meaning = "LIMIT_KB,STATS_FILE: place nodes in their order until their estimated cost exceeds the "
                  "limit; the "
                  "file has statistics that session.collect_node_memory_stats_to_file wrote",
       .when_unset = "not used"},
      {.key = "session.collect_node_memory_stats_to_file",
       .type = OptionType::kString,
       .meaning = "Write the memory that each node used, largest over all runs, to this file (beside the "
                  "model where the "
                  "path is relative) when the session ends",
       .when_unset = "not written"},
      {.key = "session.max_shape_override",
       .type = OptionType::kString,
       .meaning =
           "Largest shapes of inputs, name:[d0,d1]; name2:[]: bounds for models whose shapes have none",
       .when_unset = "none"},
      {.key = "session.plan_effort",
       .type = OptionType::kInt,
       .default_text = "4",
       .range = {0, 1'000'000},
       .meaning = "Limit of the search for a smaller layout of buffers, in units of 10,000 nodes; 0: the "
                  "first layouts "
                  "only"},
      {.key = "session.disable_prepacking",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning =
           "Kernels read weights as the model stores them where they can: less private memory, slower"},
      {.key = "session.record_decode",
       .type = OptionType::kBool,
       .default_text = "1",
       .meaning = "Record the work of decode runs on devices when the session is loaded, and launch it as a "
                  "whole (CUDA graphs)"},
      {.key = "session.external_data_strict",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Refuse an external data file that has more than one hard link"},
      {.key = "session.verify_checksums",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Compare external data files with the checksums in the model, which reads them whole"},
      {.key = "session.last_token_logits",
       .type = OptionType::kInt,
       .default_text = "0",
       .unit = "tokens",
       .range = {0, 4096},
       .meaning =
           "Compute logits for this many last tokens of each row only, where the model's head allows it; "
           "0: for all"},
      {.key = "session.layer_assignment_settings",
       .meaning = "Devices of layers by their annotations: gpu:0(block_1, =head); cpu(embed)",
       .when_unset = "no rules"},
      {.key = "session.name_based_layer_assignment",
       .meaning = "Devices of layers by parts of node names: gpu:0(layers.[0-15]); cpu(lm_head)",
       .when_unset = "no rules"},
      {.key = "session.allow_unmatched_layer_devices",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "A layer rule whose device is not there is a warning instead of an error"},
      {.key = "session.disable_cpu_ep_fallback",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Refuse to run a node on the CPU because the device it was meant for cannot run it"},
      {.key = "session.disabled_rewrites",
       .type = OptionType::kString,
       .meaning = "Graph rewrites that are not applied, separated by commas: names as the log gives them, "
                  "level1, level2 or all",
       .when_unset = "every rewrite is applied"},
  };
}

// Session options of ONNX Runtime and its GenAI configuration that say nothing about what Lamina does.
std::vector<std::string> IgnoredKeys() {
  return {"log_id",
          "log_severity_level",
          "log_verbosity_level",
          "enable_cpu_mem_arena",
          "enable_mem_pattern",
          "enable_profiling",
          "graph_optimization_level",
          "inter_op_num_threads",
          "intra_op_num_threads",
          "disable_cpu_ep_fallback",
          "disable_quant_qdq",
          "enable_quant_qdq_cleanup",
          "use_env_allocators",
          "session.use_env_allocators",
          "session.set_denormal_as_zero",
          "session.disable_quant_qdq",
          "session.enable_quant_qdq_cleanup",
          "session.intra_op.allow_spinning",
          "session.inter_op.allow_spinning",
          "session.intra_op_thread_affinities",
          "session.dynamic_block_base",
          "session.use_memory_mapped_ort_model",
          "session.qdq_matmulnbits_accuracy_level",
          "session.qdq_matmulnbits_block_size",
          "session.enable_dq_matmulnbits_fusion",
          "session.use_deterministic_compute",
          "mlas.use_lut_gemm",
          "ep.dynamic.workload_type"};
}

// "ep.NAME.KEY": the provider knows what it means.
bool IsProviderKey(std::string_view key) { return key.rfind("ep.", 0) == 0; }

Result<OptionValues> Parse(const SessionOptions& options) {
  OptionValues values(SessionOptionTable());
  for (const auto& [key, value] : options.entries()) {
    if (!IsProviderKey(key)) LAMINA_RETURN_IF_ERROR(values.Set(key, value));
  }
  return values;
}

// The text of a rule option; empty where it is unset.
std::string RulesOf(const OptionValues& values, const char* key) {
  return values.HasValue(key) ? values.Text(key) : std::string();
}

}  // namespace

const OptionTable& SessionOptionTable() {
  static const OptionTable table(Specs(), IgnoredKeys());
  return table;
}

Status SessionOptions::Set(std::string_view key, std::string_view value) {
  if (!IsProviderKey(key)) {
    OptionValues values(SessionOptionTable());
    LAMINA_RETURN_IF_ERROR(values.Set(key, value));
  }
  entries_.insert_or_assign(std::string(key), std::string(value));
  return Status();
}

Status SessionOptions::AppendProvider(std::string_view name,
                                      const std::map<std::string, std::string, std::less<>>& options) {
  if (std::find(providers_.begin(), providers_.end(), name) != providers_.end()) {
    return InvalidArgumentError("the provider '{}' was appended before", name);
  }
  providers_.emplace_back(name);
  for (const auto& [key, value] : options) {
    LAMINA_RETURN_IF_ERROR(Set(fmt::format("ep.{}.{}", name, key), value));
  }
  return Status();
}

const std::string* SessionOptions::Find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<SessionConfig> SessionConfig::FromOptions(const SessionOptions& options) {
  LAMINA_ASSIGN_OR_RETURN(const OptionValues values, Parse(options));
  SessionConfig config;
  config.num_threads = static_cast<int>(values.Int("session.intra_op_num_threads"));
  if (values.HasValue("session.context_length")) {
    config.context_length_tokens = static_cast<int>(values.Int("session.context_length"));
  }
  config.max_batch = static_cast<int>(values.Int("session.max_batch"));
  config.prefill_chunk_tokens = static_cast<int>(values.Int("session.prefill_chunk"));
  config.max_kv_caches = static_cast<int>(values.Int("session.max_kv_caches"));
  config.max_concurrent_runs = static_cast<int>(values.Int("session.max_concurrent_runs"));
  config.enable_mem_pattern = values.Bool("session.enable_mem_pattern");
  config.pre_allocate_execution_buffers = values.Bool("session.pre_allocate_execution_buffers");
  const auto text = [&](std::string_view key) {
    return values.HasValue(key) ? values.Text(key) : std::string();
  };
  config.device_memory_budget = text("session.device_memory_budget");
  config.gpu_layers = text("session.gpu_layers");
  config.partitioning_settings = text("session.resource_cuda_partitioning_settings");
  config.node_stats_file = text("session.collect_node_memory_stats_to_file");
  config.max_shape_override = text("session.max_shape_override");
  config.plan_effort = values.Int("session.plan_effort");
  config.prepack = !values.Bool("session.disable_prepacking");
  config.record_decode = values.Bool("session.record_decode");
  config.external_data_strict = values.Bool("session.external_data_strict");
  config.verify_checksums = values.Bool("session.verify_checksums");
  config.last_token_logits = static_cast<int>(values.Int("session.last_token_logits"));
  config.layer_assignment_settings = RulesOf(values, "session.layer_assignment_settings");
  config.name_based_layer_assignment = RulesOf(values, "session.name_based_layer_assignment");
  config.allow_unmatched_layer_devices = values.Bool("session.allow_unmatched_layer_devices");
  config.disable_cpu_ep_fallback = values.Bool("session.disable_cpu_ep_fallback");
  if (!config.layer_assignment_settings.empty() && !config.name_based_layer_assignment.empty()) {
    return InvalidArgumentError(
        "session.layer_assignment_settings and session.name_based_layer_assignment exclude each other: "
        "annotations are matched in the one, node names in the other");
  }
  if (values.HasValue("session.disabled_rewrites")) {
    config.disabled_rewrites = values.Text("session.disabled_rewrites");
  }
  return config;
}

Status SetFromModelFile(SessionOptions& options, const std::string& key, const std::string& value) {
  if (IsProviderKey(key)) {
    LogInfo("the model's files set {}, which is left to --option", key);
    return Status();
  }
  OptionValues values(SessionOptionTable());
  LAMINA_ASSIGN_OR_RETURN(const OptionOutcome outcome, values.Give(key, value, OptionSource::kModelFile));
  switch (outcome) {
    case OptionOutcome::kSet:
      return options.Set(key, value);
    case OptionOutcome::kIgnoredWithNotice:
      LogInfo("the model's files set {}, which has no meaning here", key);
      return Status();
    case OptionOutcome::kUnknownWithWarning:
      LogWarning("the model's files set {}, which is not known", key);
      return Status();
  }
  return Status();
}

}  // namespace lamina
