#include "cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "runtime/env_impl.h"
#include "runtime/memory_bandwidth.h"
#include "runtime/session_impl.h"
#include "runtime/weight_traffic.h"

namespace lamina::cli {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double Rate(int64_t count, int64_t ns) { return ns > 0 ? static_cast<double>(count) / Seconds(ns) : 0; }

// Tokens made after the first, which belongs to the prompt.
int64_t DecodedTokens(const Generation& answer) {
  return std::max<int64_t>(static_cast<int64_t>(answer.tokens.size()) - 1, 0);
}

nlohmann::ordered_json LogProbability(const TextModel& model, const TokenLogProbability& entry) {
  // JSON knows no infinity; a token that cannot come has the smallest number.
  constexpr double kLeast = std::numeric_limits<float>::lowest();
  return {{"id", entry.token},
          {"token", model.tokenizer->IdToToken(entry.token).value_or("")},
          {"logprob", std::max(static_cast<double>(entry.log_probability), kLeast)}};
}

// One object for each token of the answer, in the form of llama.cpp's server.
nlohmann::ordered_json LogProbabilities(const TextModel& model, const Generation& answer) {
  nlohmann::ordered_json reports = nlohmann::ordered_json::array();
  for (size_t i = 0; i < answer.log_probabilities.size(); ++i) {
    const TokenReport& report = answer.log_probabilities[i];
    nlohmann::ordered_json object = LogProbability(model, {answer.tokens[i], report.log_probability});
    object["top_logprobs"] = nlohmann::ordered_json::array();
    for (const TokenLogProbability& entry : report.top) {
      object["top_logprobs"].push_back(LogProbability(model, entry));
    }
    reports.push_back(std::move(object));
  }
  return reports;
}

// "parse 0.001, plan 0.010, ...": phases that took time, in seconds.
std::string LoadPhases(const SessionStats& stats) {
  std::string text;
  const auto add = [&](const char* name, int64_t duration_ns) {
    constexpr int64_t kShownNs = 500'000;
    if (duration_ns >= kShownNs)
      text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", name, Seconds(duration_ns));
  };
  add("parse", stats.load_parse_ns);
  add("context", stats.load_context_ns);
  add("plan", stats.load_plan_ns);
  add("allocate", stats.load_allocate_ns);
  add("weights", stats.load_weights_ns);
  add("prepack", stats.load_prepack_ns);
  return text;
}

// A line for each device that a loader brought weights to.
std::string DeviceLoads(const SessionStats& stats) {
  std::string text;
  for (const DeviceLoadStats& load : stats.device_loads) {
    const double bytes_per_s =
        load.total_ns > 0 ? static_cast<double>(load.bytes) / Seconds(load.total_ns) : 0;
    text += fmt::format(
        "to {:<8}{:9.3f} s  {} by {}, {:.2f} GB/s; its threads: read {:.3f}, copy {:.3f}, wait {:.3f}\n",
        load.device.ToString(), Seconds(load.total_ns), ApproximateByteSize(load.bytes), load.strategy,
        bytes_per_s / 1e9, Seconds(load.read_ns), Seconds(load.copy_ns), Seconds(load.wait_ns));
  }
  return text;
}

// What each accelerator holds, where there is one.
std::string Placements(const Session& session) {
  const Plan* plan = session.impl().plan();
  if (!plan || plan->devices.size() < 2) return "";
  std::string text;
  for (const Plan::DeviceMemory& device : plan->devices) {
    const auto holds = [&](const Plan::Layer& layer) { return layer.device == device.name; };
    const auto layers = std::count_if(plan->layers.begin(), plan->layers.end(), holds);
    text += fmt::format("{:<11}{} of {} layers and ends, {} allocated", device.name, layers,
                        plan->layers.size(), ApproximateByteSize(device.allocated_bytes));
    if (device.budget_bytes) text += fmt::format(" of {}", ApproximateByteSize(*device.budget_bytes));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string VerboseReport(const TextModel& model, const Generation& answer, uint64_t seed) {
  const SessionStats stats = model.engine->session().stats();
  const uint64_t token_bytes = WeightBytesPerToken(model.engine->session().impl().executable());
  const double tokens_per_s = Rate(DecodedTokens(answer), answer.generation_ns);
  const double read_bytes_per_s = tokens_per_s * static_cast<double>(token_bytes);
  const double bound_bytes_per_s = MeasureReadBandwidth(model.env->impl().threads());
  std::string text;
  text += fmt::format("load       {:9.3f} s  {}\n", Seconds(model.load_ns), LoadPhases(stats));
  text += DeviceLoads(stats);
  text += fmt::format("prompt     {:9.3f} s  {} tokens ({} run), {:.1f} tokens/s\n",
                      Seconds(answer.prompt_ns), answer.prompt_tokens, answer.prompt_tokens_run,
                      Rate(answer.prompt_tokens_run, answer.prompt_ns));
  text += fmt::format("generation {:9.3f} s  {} tokens, {:.1f} tokens/s, ended by {}\n",
                      Seconds(answer.generation_ns), answer.tokens.size(), tokens_per_s,
                      StopReasonName(answer.reason));
  text += fmt::format("weights    {} a token, {:.2f} GB/s; memory reads {:.2f} GB/s on {} threads\n",
                      ApproximateByteSize(token_bytes), read_bytes_per_s / 1e9, bound_bytes_per_s / 1e9,
                      model.env->num_threads());
  if (const std::string recordings = model.engine->session().impl().recordings_text(); !recordings.empty()) {
    text += fmt::format("decode     {}\n", recordings);
  }
  text += fmt::format(
      "memory     weights {} ({} repacked), KV cache {} for {} tokens, execution {}, {} kernels a step\n",
      ApproximateByteSize(stats.weights_bytes), ApproximateByteSize(stats.prepacked_bytes),
      ApproximateByteSize(model.engine->kv_cache_bytes()), model.engine->context_length_tokens(),
      ApproximateByteSize(static_cast<uint64_t>(model.engine->session().impl().execution_buffer_bytes())),
      stats.num_steps);
  if (answer.drafted_tokens > 0) {
    text += fmt::format("lookup     {} tokens guessed, {} of them right\n", answer.drafted_tokens,
                        answer.accepted_tokens);
  }
  text += Placements(model.engine->session());
  text += fmt::format("seed       {}\n", seed);
  return text;
}

std::string JsonPiece(std::string_view text) {
  return nlohmann::json{{"text", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string JsonSummary(const TextModel& model, const Generation& answer, uint64_t seed) {
  nlohmann::ordered_json summary = {
      {"done", true},
      {"stop_reason", StopReasonName(answer.reason)},
      {"tokens", answer.tokens},
      {"seed", seed},
      {"load_s", Seconds(model.load_ns)},
      {"prompt_tokens", answer.prompt_tokens},
      {"prompt_s", Seconds(answer.prompt_ns)},
      {"generated_tokens", answer.tokens.size()},
      {"generation_s", Seconds(answer.generation_ns)},
      {"tokens_per_s", Rate(DecodedTokens(answer), answer.generation_ns)},
  };
  if (answer.drafted_tokens > 0) {
    summary["drafted_tokens"] = answer.drafted_tokens;
    summary["accepted_tokens"] = answer.accepted_tokens;
  }
  if (!answer.log_probabilities.empty()) summary["logprobs"] = LogProbabilities(model, answer);
  for (const GeneratedSequence& sequence : answer.sequences) {
    summary["sequences"].push_back(
        {{"text", sequence.text}, {"score", sequence.score}, {"tokens", sequence.tokens}});
  }
  return summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string OtherSequences(const Generation& answer) {
  std::string text;
  for (size_t i = 1; i < answer.sequences.size(); ++i) text += "\n" + answer.sequences[i].text + "\n";
  return text;
}

}  // namespace lamina::cli
