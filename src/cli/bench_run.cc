#include "cli/bench_run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/bench_table.h"
#include "cli/model_flags.h"
#include "cli/parameter_count.h"
#include "cli/progress_bar.h"
#include "provider/memory_meter.h"
#include "runtime/env_impl.h"
#include "runtime/memory_bandwidth.h"
#include "runtime/session_impl.h"
#include "runtime/weight_traffic.h"

namespace lamina::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string prompt = "512";
  std::string generate = "128";
  std::string depth = "0";
  std::string repetitions = "5";
  std::string output = "md";
};

// Comma-separated numbers from `min` on; empty entries are an error.
Result<std::vector<int64_t>> ParseNumbers(const std::string& flag, const std::string& text, int64_t min) {
  constexpr int64_t kMost = int64_t{1} << 20;
  std::vector<int64_t> numbers;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t number, ParseWholeNumber(flag, part, min, kMost));
    numbers.push_back(number);
  }
  return numbers;
}

// One model and what its results have in common.
class Bench {
 public:
  static Result<Bench> Load(const Flags& flags, int64_t context_tokens) {
    Bench bench;
    LAMINA_ASSIGN_OR_RETURN(bench.env_, MakeEnv(flags.model));
    LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags.model.model));
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(path, flags.model.variant));
    LAMINA_ASSIGN_OR_RETURN(EngineOptions options, MakeEngineOptions(flags.model, folder));
    if (flags.model.context.empty()) options.context_length_tokens = context_tokens;
    ProgressBar progress("loading");
    LoadOptions load_options;
    load_options.progress = [&](const LoadProgress& done) {
      progress.Update(done.done_bytes, done.total_bytes);
    };
    LAMINA_ASSIGN_OR_RETURN(bench.engine_, Engine::Create(bench.env_, folder, options, load_options));
    progress.Finish();
    const Session& session = bench.engine_->session();
    bench.common_.model = std::filesystem::path(path).lexically_normal().filename().string();
    bench.common_.size_bytes = session.stats().weights_bytes;
    bench.common_.params = CountParameters(*session.impl().model().graph);
    bench.common_.backend = "CPU";
    if (const Plan* plan = session.impl().plan()) {
      bench.common_.gpu_layers = std::count_if(plan->layers.begin(), plan->layers.end(),
                                               [](const auto& layer) { return layer.device != "cpu"; });
    }
    const SessionDevice& first = session.impl().devices().front();
    if (bench.common_.gpu_layers > 0) {
      bench.common_.backend = std::string(first.provider->name());
      std::transform(bench.common_.backend.begin(), bench.common_.backend.end(),
                     bench.common_.backend.begin(), [](unsigned char c) { return std::toupper(c); });
      auto* meter = dynamic_cast<MemoryMeter*>(first.provider.get());
      if (meter) bench.bound_bytes_per_s_ = meter->MeasureReadBandwidth(first.device()).value_or(0.0);
    } else {
      bench.bound_bytes_per_s_ = MeasureReadBandwidth(bench.env_->impl().threads());
    }
    return bench;
  }

  // Runs a prompt of `tokens` after `depth` tokens.
  Result<BenchResult> Prompt(int64_t tokens, int64_t depth, int64_t repetitions) {
    BenchResult result = ResultOf("pp", tokens, depth, 1);
    LAMINA_ASSIGN_OR_RETURN(const SequenceId sequence, engine_->AddSequence());
    const auto run = [&]() -> Result<double> {
      LAMINA_RETURN_IF_ERROR(Fill({&sequence, 1}, depth));
      const std::vector<int32_t> prompt = RandomTokens(tokens);
      const SequenceStep row{sequence, prompt, 1};
      const int64_t start_ns = SystemClock().NowNs();
      LAMINA_RETURN_IF_ERROR(engine_->Step({&row, 1}));
      return Rate(tokens, SystemClock().NowNs() - start_ns);
    };
    const Status status = Repeat(run, repetitions, result);
    engine_->RemoveSequence(sequence);
    LAMINA_RETURN_IF_ERROR(status);
    return result;
  }

  // Makes `tokens` tokens of every sequence the engine has room for, one after the other.
  Result<BenchResult> Generate(int64_t tokens, int64_t depth, int64_t repetitions) {
    const int64_t batch = engine_->max_sequences();
    BenchResult result = ResultOf("tg", tokens, depth, batch);
    std::vector<SequenceId> sequences;
    for (int64_t i = 0; i < batch; ++i) {
      LAMINA_ASSIGN_OR_RETURN(const SequenceId sequence, engine_->AddSequence());
      sequences.push_back(sequence);
    }
    std::vector<SequenceStep> rows(sequences.size());
    const auto run = [&]() -> Result<double> {
      LAMINA_RETURN_IF_ERROR(Fill(sequences, depth));
      const std::vector<int32_t> chosen = RandomTokens(tokens * batch);
      const int64_t start_ns = SystemClock().NowNs();
      for (int64_t token = 0; token < tokens; ++token) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const size_t at = static_cast<size_t>(token) * rows.size() + i;
          rows[i] = {sequences[i], std::span(chosen).subspan(at, 1), 1};
        }
        LAMINA_RETURN_IF_ERROR(engine_->Step(rows));
      }
      return Rate(tokens * batch, SystemClock().NowNs() - start_ns);
    };
    const Status status = Repeat(run, repetitions, result);
    for (const SequenceId sequence : sequences) engine_->RemoveSequence(sequence);
    LAMINA_RETURN_IF_ERROR(status);
    const auto step_bytes = static_cast<double>(WeightBytesPerToken(engine_->session().impl().executable()));
    result.bytes_per_s = result.mean() / static_cast<double>(batch) * step_bytes;
    result.bound_bytes_per_s = bound_bytes_per_s_;
    return result;
  }

 private:
  static double Rate(int64_t tokens, int64_t duration_ns) {
    return static_cast<double>(tokens) / (static_cast<double>(std::max<int64_t>(duration_ns, 1)) * 1e-9);
  }

  BenchResult ResultOf(const char* kind, int64_t tokens, int64_t depth, int64_t batch) const {
    BenchResult result = common_;
    result.test = fmt::format("{}{}", kind, tokens);
    if (depth > 0) result.test += fmt::format(" @ d{}", depth);
    if (batch > 1) result.test += fmt::format(" b{}", batch);
    result.batch = batch;
    return result;
  }

  std::vector<int32_t> RandomTokens(int64_t count) {
    std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(engine_->vocab_size()) - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = any(random_);
    return tokens;
  }

  // Makes the sequences `depth` tokens long.
  Status Fill(std::span<const SequenceId> sequences, int64_t depth) {
    for (const SequenceId sequence : sequences) {
      LAMINA_RETURN_IF_ERROR(engine_->Rewind(sequence, 0));
      if (depth == 0) continue;
      const std::vector<int32_t> tokens = RandomTokens(depth);
      const SequenceStep row{sequence, tokens, 0};
      LAMINA_RETURN_IF_ERROR(engine_->Step({&row, 1}));
    }
    return Status();
  }

  // Once to warm up, then measured.
  template <typename Run>
  Status Repeat(Run run, int64_t repetitions, BenchResult& result) {
    LAMINA_RETURN_IF_ERROR(run().status());
    for (int64_t i = 0; i < repetitions; ++i) {
      LAMINA_ASSIGN_OR_RETURN(const double rate, run());
      result.tokens_per_s.push_back(rate);
    }
    return Status();
  }

  std::shared_ptr<Env> env_;
  std::unique_ptr<Engine> engine_;
  BenchResult common_;
  double bound_bytes_per_s_ = 0;
  std::mt19937 random_{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same tokens every time
};

Result<ExitCode> BenchRun(const Flags& flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const BenchFormat format, ParseBenchFormat(flags.output));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> prompts, ParseNumbers("--prompt", flags.prompt, 0));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> generations,
                          ParseNumbers("--generate", flags.generate, 0));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> depths, ParseNumbers("--depth", flags.depth, 0));
  LAMINA_ASSIGN_OR_RETURN(const int64_t repetitions,
                          ParseWholeNumber("--repetitions", flags.repetitions, 1, 1000));
  const auto largest = [](const std::vector<int64_t>& numbers) {
    return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
  };
  const int64_t context_tokens =
      largest(depths) + std::max({largest(prompts), largest(generations), int64_t{1}});
  LAMINA_ASSIGN_OR_RETURN(Bench bench, Bench::Load(flags, context_tokens));
  std::vector<BenchResult> results;
  for (const int64_t depth : depths) {
    for (const int64_t tokens : prompts) {
      if (tokens == 0) continue;
      LAMINA_ASSIGN_OR_RETURN(BenchResult result, bench.Prompt(tokens, depth, repetitions));
      results.push_back(std::move(result));
    }
    for (const int64_t tokens : generations) {
      if (tokens == 0) continue;
      LAMINA_ASSIGN_OR_RETURN(BenchResult result, bench.Generate(tokens, depth, repetitions));
      results.push_back(std::move(result));
    }
  }
  out.Write(FormatBenchResults(results, format));
  return ExitCode::kSuccess;
}

}  // namespace

void RegisterBenchRunCommand(Commands& commands, CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  CLI::App& app = commands.Add(
      "run", "Time prompts and generation, in the columns of llama-bench",
      [flags](Output& out) { return BenchRun(*flags, out); }, &bench);
  AddModelArgument(app, flags->model);
  AddModelFlags(app, flags->model);
  app.add_option("-p,--prompt", flags->prompt, "Prompt tokens to time, 0 for none (default 512)")
      ->option_text("N[,N]");
  app.add_option("-n,--generate", flags->generate, "Tokens to make, 0 for none (default 128)")
      ->option_text("N[,N]");
  app.add_option("-d,--depth", flags->depth, "Tokens before them (default 0)")->option_text("N[,N]");
  app.add_option("-r,--repetitions", flags->repetitions, "Repetitions of each test (default 5)")
      ->option_text("N");
  app.add_option("-o,--output", flags->output, "md (default), json or csv")->option_text("FORMAT");
}

}  // namespace lamina::cli
