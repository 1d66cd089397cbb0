#include "cli/bench_offsets.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/thread_pool.h"
#include "memory/interval_csv.h"
#include "memory/offset_planner.h"
#include "plan/layout_validator.h"

namespace lamina::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  std::string output_folder;
  std::string capacity;
  int64_t effort = 50;
  int threads = 0;
};

struct Outcome {
  Status status;
  OffsetPlan plan;
  double seconds = 0;
};

Result<std::string> ReadText(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, SystemFiles().Open(path));
  std::string text(file->size_bytes(), '\0');
  LAMINA_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string FileName(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Status Validate(const IntervalTable& table, const OffsetPlan& plan) {
  std::vector<PlacedBuffer> buffers;
  for (size_t i = 0; i < table.intervals.size(); ++i) {
    const Interval& interval = table.intervals[i];
    PlacedBuffer buffer;
    buffer.name = table.ids[i];
    buffer.size_bytes = interval.size_bytes;
    buffer.alignment = interval.alignment;
    buffer.lower = interval.lower;
    buffer.upper = interval.upper;
    buffer.offset = plan.offsets[i];
    buffers.push_back(std::move(buffer));
  }
  LAMINA_ASSIGN_OR_RETURN(const LayoutReport report, ValidateLayout(buffers, plan.peak_bytes));
  if (report.peak_bytes != plan.peak_bytes) {
    return InternalError("the planner reports a peak of {} bytes, the validator {}", plan.peak_bytes,
                         report.peak_bytes);
  }
  return Status();
}

Outcome PlanFile(const IntervalTable& table, const OffsetPlannerOptions& options) {
  Outcome outcome;
  const int64_t begin_ns = SystemClock().NowNs();
  Result<OffsetPlan> plan = PlanOffsets(table.intervals, options);
  outcome.seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) * 1e-9;
  if (!plan.ok()) {
    outcome.status = plan.status();
    return outcome;
  }
  outcome.plan = std::move(plan).value();
  outcome.status = Validate(table, outcome.plan);
  return outcome;
}

Status WriteLayout(const std::string& path, const IntervalTable& table, const OffsetPlan& plan) {
  LAMINA_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(path));
  LAMINA_RETURN_IF_ERROR(writer.Append(FormatLayoutCsv(table, plan.offsets)));
  return writer.Commit();
}

Status PrepareOutputFolder(const Flags& flags) {
  std::set<std::string> names;
  for (const std::string& file : flags.files) {
    if (!names.insert(FileName(file)).second) {
      return InvalidArgumentError("--output: two of the files are named '{}'", FileName(file));
    }
  }
  std::error_code error;
  std::filesystem::create_directories(flags.output_folder, error);
  if (error) return IoError("--output: cannot create folder '{}': {}", flags.output_folder, error.message());
  return Status();
}

Result<ExitCode> BenchOffsets(const Flags& flags, Output& out) {
  OffsetPlannerOptions options;
  options.effort = flags.effort;
  if (!flags.capacity.empty()) {
    Result<uint64_t> capacity = ParseByteSize(flags.capacity);
    if (!capacity.ok()) return capacity.status().WithContext("--capacity");
    options.good_enough_bytes = static_cast<int64_t>(std::min(*capacity, uint64_t{INT64_MAX}));
  }
  if (!flags.output_folder.empty()) LAMINA_RETURN_IF_ERROR(PrepareOutputFolder(flags));
  std::vector<IntervalTable> tables;
  for (const std::string& file : flags.files) {
    LAMINA_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
    LAMINA_ASSIGN_OR_RETURN(IntervalTable table, ParseIntervalCsv(text, file));
    tables.push_back(std::move(table));
  }

  std::vector<Outcome> outcomes(tables.size());
  ThreadPool pool(flags.threads);
  pool.ParallelFor(static_cast<int64_t>(tables.size()), 1, [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t i = begin; i < end; ++i) {
      outcomes[static_cast<size_t>(i)] = PlanFile(tables[static_cast<size_t>(i)], options);
    }
  });

  ExitCode exit_code = ExitCode::kSuccess;
  for (size_t i = 0; i < tables.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.status.ok()) return outcome.status.WithContext(flags.files[i]);
    const OffsetPlan& plan = outcome.plan;
    // Without live bytes there is nothing to lose.
    const double ratio = plan.lower_bound_bytes == 0 ? 1.0
                                                     : static_cast<double>(plan.peak_bytes) /
                                                           static_cast<double>(plan.lower_bound_bytes);
    out.Print("{} {} {} {:.4f} {:.3f}\n", FileName(flags.files[i]), plan.peak_bytes, plan.lower_bound_bytes,
              ratio, outcome.seconds);
    if (options.good_enough_bytes && plan.peak_bytes > *options.good_enough_bytes)
      exit_code = ExitCode::kFailure;
    if (!flags.output_folder.empty()) {
      LAMINA_RETURN_IF_ERROR(
          WriteLayout(flags.output_folder + "/" + FileName(flags.files[i]), tables[i], plan));
    }
  }
  return exit_code;
}

}  // namespace

void RegisterBenchOffsetsCommand(Commands& commands, CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  CLI::App& app = commands.Add(
      "offsets", "Pack buffers with given lifetimes into one block: name, peak, lower bound, ratio, seconds",
      [flags](Output& out) { return BenchOffsets(*flags, out); }, &bench);
  app.add_option("FILE", flags->files,
                 "CSV files with the columns id, lower, upper, size [alignment, offset]")
      ->required();
  app.add_option("--output", flags->output_folder,
                 "Folder for the layouts: each input with a column `offset`");
  app.add_option("--capacity", flags->capacity,
                 "Stop at the first layout of at most this size; a larger peak is a failure");
  app.add_option("--plan-effort", flags->effort, "Limit of the search, in units of 10,000 nodes")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--threads", flags->threads, "Files planned at the same time; 0: one per physical core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace lamina::cli
