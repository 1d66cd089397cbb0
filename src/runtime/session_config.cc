#include "runtime/session_config.h"

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
      {.key = "session.disable_prepacking",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning =
           "Kernels read weights as the model stores them where they can: less private memory, slower"},
      {.key = "session.external_data_strict",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Refuse an external data file that has more than one hard link"},
      {.key = "session.verify_checksums",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Compare external data files with the checksums in the model, which reads them whole"},
      {.key = "session.last_token_logits",
       .type = OptionType::kBool,
       .default_text = "0",
       .meaning = "Compute logits for the last token of each row only, where the model's head allows it"},
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

Result<OptionValues> Parse(const SessionOptions& options) {
  OptionValues values(SessionOptionTable());
  for (const auto& [key, value] : options.entries()) LAMINA_RETURN_IF_ERROR(values.Set(key, value));
  return values;
}

}  // namespace

const OptionTable& SessionOptionTable() {
  static const OptionTable table(Specs(), IgnoredKeys());
  return table;
}

Status SessionOptions::Set(std::string_view key, std::string_view value) {
  OptionValues values(SessionOptionTable());
  LAMINA_RETURN_IF_ERROR(values.Set(key, value));
  entries_.insert_or_assign(std::string(key), std::string(value));
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
  config.prepack = !values.Bool("session.disable_prepacking");
  config.external_data_strict = values.Bool("session.external_data_strict");
  config.verify_checksums = values.Bool("session.verify_checksums");
  config.last_token_logits = values.Bool("session.last_token_logits");
  return config;
}

Status SetFromModelFile(SessionOptions& options, const std::string& key, const std::string& value) {
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
