#include "cli/bench_load.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "cli/load_bench_data.h"
#include "cli/load_bench_device.h"
#include "cli/load_sample.h"
#include "cli/model_flags.h"

namespace lamina::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSyntheticName = "lamina-bench-load.bin";
const std::vector<std::string> kAllCases = {"pageable", "pinned:1", "pinned:2", "pinned:3",
                                            "pinned:4", "pinned:5", "pinned:6", "pinned:16",
                                            "mapped",   "direct",   "auto"};

struct Flags {
  std::string model;
  std::string synthetic;
  std::string folder = ".";
  std::string device;
  std::vector<std::string> cases;
  std::string temperature;  // empty: both
  std::string bound_bytes = "1TiB";
  int samples = 3;
  bool check = false;
  bool json = false;
  std::string sample;  // of the process that is one sample
};

std::string DataPath(const Flags& flags) {
  return flags.synthetic.empty() ? flags.model : flags.folder + "/" + kSyntheticName;
}

Result<LoadBenchData> OpenData(const Flags& flags) {
  return flags.synthetic.empty() ? ModelLoadData(flags.model) : SyntheticLoadData(DataPath(flags));
}

// "NAME[:THREADS[:SIZE[:MAPPING_THREADS]]]": a strategy, or "pageable" for the generic way; SIZE is that of a
// buffer with pinned, of a window with mapped, else of a block.
Result<DeviceLoaderOptions> OptionsOfCase(const std::string& text) {
  const std::vector<std::string> parts = CLI::detail::split(text, ':');
  DeviceLoaderOptions options;
  if (parts[0] == "pageable") {
    options.reading_threads = 0;
    return options;
  }
  Result<LoadStrategy> strategy = ParseLoadStrategy(parts[0]);
  if (!strategy.ok()) return strategy.status().WithContext("--case");
  options.strategy = *strategy;
  constexpr int kMost = DeviceLoaderOptions::kMostReadingThreads;
  if (parts.size() > 1) {
    LAMINA_ASSIGN_OR_RETURN(options.reading_threads, ParseWholeNumber("--case", parts[1], 0, kMost));
  }
  if (parts.size() > 2) {
    uint64_t& size_bytes = options.strategy == LoadStrategy::kPinned   ? options.buffer_bytes
                           : options.strategy == LoadStrategy::kMapped ? options.window_bytes
                                                                       : options.block_bytes;
    LAMINA_ASSIGN_OR_RETURN(size_bytes, ParseByteSize(parts[2]));
  }
  if (parts.size() > 3) {
    LAMINA_ASSIGN_OR_RETURN(options.mapping_threads, ParseWholeNumber("--case", parts[3], 0, kMost));
  }
  const Status status = options.Validate();
  if (!status.ok()) return status.WithContext("--case");
  return options;
}

// --- One sample: a process that prints a line of JSON.

Json JsonOf(const LoadSample& sample) {
  Json bytes_by_way = Json::array();
  for (size_t way = 0; way < kNumLoadWays; ++way) {
    uint64_t bytes = 0;
    for (const FileLoadReport& file : sample.report.files) bytes += file.bytes_by_way.at(way);
    bytes_by_way.push_back(bytes);
  }
  return {{"seconds", sample.load_s},
          {"context_s", sample.context_s},
          {"allocate_s", sample.allocate_s},
          {"setup_s", static_cast<double>(sample.report.setup_ns) * 1e-9},
          {"read_s", static_cast<double>(sample.report.phases.read_ns) * 1e-9},
          {"copy_s", static_cast<double>(sample.report.phases.copy_ns) * 1e-9},
          {"wait_s", static_cast<double>(sample.report.phases.wait_ns) * 1e-9},
          {"bytes", sample.report.bytes},
          {"host_peak_bytes", sample.host_peak_bytes},
          {"reading_threads", sample.report.reading_threads},
          {"mapping_threads", sample.report.mapping_threads},
          {"bytes_by_way", bytes_by_way}};
}

// `text`: "copy", "read DIRECT READERS", "load CASE", "cpu".
Result<Json> TakeSample(const Flags& flags, const std::string& text) {
  const std::vector<std::string> words = CLI::detail::split(text, ' ');
  if (words[0] == "copy") {
    LAMINA_ASSIGN_OR_RETURN(const LoadBenchDevice found, FindLoadBenchDevice(flags.device));
    LAMINA_ASSIGN_OR_RETURN(const double rate, MeasureCopyRate(*found.provider, found.description.device));
    return Json{{"bytes_per_s", rate}};
  }
  LAMINA_ASSIGN_OR_RETURN(LoadBenchData data, OpenData(flags));
  LAMINA_RETURN_IF_ERROR(
      SetTemperature(data, flags.temperature == "cold" ? Temperature::kCold : Temperature::kWarm));
  if (words[0] == "cpu") {
    LAMINA_ASSIGN_OR_RETURN(const double seconds, TimeCpuSession(flags.model));
    return Json{{"seconds", seconds}, {"bytes", data.item_bytes}};
  }
  if (words[0] == "read" && words.size() == 3) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bound_bytes, ParseByteSize(flags.bound_bytes));
    LAMINA_ASSIGN_OR_RETURN(const double rate,
                            MeasureReadRate(data, words[1] == "direct", std::stoi(words[2]), bound_bytes));
    return Json{{"bytes_per_s", rate}};
  }
  if (words[0] == "load" && words.size() == 2) {
    LAMINA_ASSIGN_OR_RETURN(const DeviceLoaderOptions options, OptionsOfCase(words[1]));
    LAMINA_ASSIGN_OR_RETURN(const LoadBenchDevice found, FindLoadBenchDevice(flags.device));
    LAMINA_ASSIGN_OR_RETURN(const LoadSample sample, MeasureLoad(*found.provider, found.description.device,
                                                                 data, options, flags.check));
    return JsonOf(sample);
  }
  return InvalidArgumentError("--sample: '{}'", text);
}

// --- The measurement as a whole.

class Bench {
 public:
  Bench(const Flags& flags, Output& out) : flags_(flags), out_(out) {}
  Status Run();

 private:
  Result<Json> Sample(const std::string& text, const std::string& temperature, bool check) const;
  Status MeasureBounds();
  Status MeasureCase(const std::string& name, const std::string& temperature);
  double BoundOf(const std::string& temperature) const {
    return temperature == "cold" ? std::min(copy_bytes_per_s_, cold_read_bytes_per_s_) : copy_bytes_per_s_;
  }
  bool Wanted(const std::string& temperature) const {
    return flags_.temperature.empty() || flags_.temperature == temperature;
  }
  void AddBound(const std::string& name, double bytes_per_s);

  const Flags& flags_;
  Output& out_;
  double copy_bytes_per_s_ = 0;
  double cold_read_bytes_per_s_ = 0;
  Json bounds_ = Json::object();
  Json cases_ = Json::array();
};

Result<Json> Bench::Sample(const std::string& text, const std::string& temperature, bool check) const {
  std::vector<std::string> arguments = {
      ExecutablePath(), "bench",     "load",          "--sample",         text,
      "--temperature",  temperature, "--bound-bytes", flags_.bound_bytes, "--folder",
      flags_.folder,    "--device",  flags_.device};
  if (check) arguments.emplace_back("--check");
  if (flags_.synthetic.empty()) {
    arguments.push_back(flags_.model);
  } else {
    arguments.insert(arguments.end(), {"--synthetic", flags_.synthetic});
  }
  LAMINA_ASSIGN_OR_RETURN(const ChildOutcome outcome, RunChildProcess(arguments));
  if (outcome.exit_code != 0) {
    return InternalError("the sample '{}' ended with {} {}", text, outcome.signal ? "signal" : "exit code",
                         outcome.signal ? outcome.signal : outcome.exit_code);
  }
  Json json = Json::parse(outcome.standard_output, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InternalError("the sample '{}' printed no JSON", text);
  return json;
}

void Bench::AddBound(const std::string& name, double bytes_per_s) {
  bounds_[name] = bytes_per_s;
  if (flags_.json) return;
  out_.Print("bound  {:<32} {:7.2f} GB/s\n", name, bytes_per_s * 1e-9);
  static_cast<void>(out_.Flush());
}

Status Bench::MeasureBounds() {
  LAMINA_ASSIGN_OR_RETURN(const Json copy, Sample("copy", "warm", false));
  copy_bytes_per_s_ = copy.at("bytes_per_s").get<double>();
  AddBound("pinned host to device", copy_bytes_per_s_);
  for (const std::string temperature : {"cold", "warm"}) {
    if (!Wanted(temperature)) continue;
    for (const std::string way : {"direct", "buffered"}) {
      if (way == "direct" && temperature == "warm") continue;
      for (const int readers : {1, 4, 16}) {
        const std::string name = fmt::format("{} {} read, {} readers", temperature, way, readers);
        const Result<Json> read = Sample(fmt::format("read {} {}", way, readers), temperature, false);
        if (!read.ok()) {
          LogWarning("{}: {}", name, read.status().ToString());
          continue;
        }
        const auto rate = read->at("bytes_per_s").get<double>();
        AddBound(name, rate);
        if (temperature == "cold") cold_read_bytes_per_s_ = std::max(cold_read_bytes_per_s_, rate);
      }
    }
  }
  return Status();
}

Status Bench::MeasureCase(const std::string& name, const std::string& temperature) {
  std::vector<Json> samples;
  for (int i = 0; i < flags_.samples; ++i) {
    const bool check = flags_.check && i == 0 && temperature == "warm";
    LAMINA_ASSIGN_OR_RETURN(samples.emplace_back(), Sample(name, temperature, check));
  }
  std::sort(samples.begin(), samples.end(),
            [](const Json& a, const Json& b) { return a.at("seconds") < b.at("seconds"); });
  const Json& median = samples[samples.size() / 2];
  const auto rate = [](const Json& sample) {
    return sample.at("bytes").get<double>() / sample.at("seconds").get<double>();
  };
  const double percent = rate(median) / BoundOf(temperature) * 100;
  const std::string label = name.rfind("load ", 0) == 0 ? name.substr(5) : name + " session";
  cases_.push_back({{"case", label},
                    {"temperature", temperature},
                    {"min_s", samples.front().at("seconds")},
                    {"median_s", median.at("seconds")},
                    {"max_s", samples.back().at("seconds")},
                    {"bytes_per_s", rate(median)},
                    {"percent_of_bound", percent},
                    {"samples", samples}});
  if (flags_.json) return Status();
  uint64_t host_peak_bytes = 0;
  for (const Json& sample : samples) {
    host_peak_bytes = std::max(host_peak_bytes, sample.value("host_peak_bytes", uint64_t{0}));
  }
  out_.Print("{:<5}  {:<12} {:8.3f} {:8.3f} {:8.3f} s {:8.2f} GB/s {:6.1f} % of bound, host +{}\n",
             temperature, label, samples.front().at("seconds").get<double>(),
             median.at("seconds").get<double>(), samples.back().at("seconds").get<double>(),
             rate(median) * 1e-9, percent, FormatByteSize(host_peak_bytes));
  return out_.Flush();
}

Status Bench::Run() {
  if (!flags_.synthetic.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t size_bytes, ParseByteSize(flags_.synthetic));
    if (size_bytes == 0) return InvalidArgumentError("--synthetic: expected more than 0 bytes");
    LAMINA_RETURN_IF_ERROR(WriteSyntheticWeights(DataPath(flags_), size_bytes));
  }
  for (const std::string& name : flags_.cases) LAMINA_RETURN_IF_ERROR(OptionsOfCase(name).status());
  uint64_t bytes = 0;
  {
    LAMINA_ASSIGN_OR_RETURN(const LoadBenchData data, OpenData(flags_));
    bytes = data.item_bytes;
    if (!flags_.json) {
      out_.Print("{} in {} tensors of {} files, {} cores; min, median, max of {} processes\n",
                 FormatByteSize(bytes), data.items.size(), data.files.size(), AvailableCores(),
                 flags_.samples);
    }
  }
  LAMINA_RETURN_IF_ERROR(MeasureBounds());
  for (const std::string temperature : {"cold", "warm"}) {
    if (!Wanted(temperature)) continue;
    for (const std::string& name : flags_.cases.empty() ? kAllCases : flags_.cases) {
      LAMINA_RETURN_IF_ERROR(MeasureCase("load " + name, temperature));
    }
    if (flags_.synthetic.empty()) LAMINA_RETURN_IF_ERROR(MeasureCase("cpu", temperature));
  }
  if (flags_.json) {
    out_.Write(Json{{"bytes", bytes}, {"bounds", bounds_}, {"cases", cases_}}.dump(2) + "\n");
  }
  return Status();
}

Result<ExitCode> BenchLoad(const Flags& flags, Output& out) {
  if (flags.model.empty() == flags.synthetic.empty()) {
    return InvalidArgumentError("bench load: expected either MODEL or --synthetic SIZE");
  }
  if (!flags.sample.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const Json json, TakeSample(flags, flags.sample));
    out.Write(json.dump() + "\n");
    return ExitCode::kSuccess;
  }
  LAMINA_RETURN_IF_ERROR(Bench(flags, out).Run());
  return ExitCode::kSuccess;
}

}  // namespace

void RegisterBenchLoadCommand(Commands& commands, CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  CLI::App& app = commands.Add(
      "load", "How fast weights come to a device, beside the bounds of disk and link",
      [flags](Output& out) { return BenchLoad(*flags, out); }, &bench);
  app.add_option("MODEL", flags->model, "A .onnx file with external data");
  app.add_option("--synthetic", flags->synthetic, "Load a made-up file of this size instead")
      ->option_text("SIZE");
  app.add_option("--folder", flags->folder, "Where the made-up file lies; one of that size is used again")
      ->option_text("DIR")
      ->capture_default_str();
  app.add_option("--device", flags->device, "Load to this device (default: the first accelerator)");
  app.add_option(
         "--case", flags->cases,
         "What to measure: pageable (mapped file, copy from pageable memory), pinned, mapped, direct, "
         "auto, each with threads and sizes if wanted (default: all)")
      ->option_text("NAME[:THREADS[:SIZE[:MAPPERS]]]")
      ->allow_extra_args(false);
  app.add_option("--temperature", flags->temperature, "Only with files outside or in the page cache")
      ->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--samples", flags->samples, "Processes for each number")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--bound-bytes", flags->bound_bytes, "Most bytes read for a bound of the disk")
      ->option_text("SIZE")
      ->capture_default_str();
  app.add_flag("--check", flags->check,
               "Compare what the device holds with the files, in one warm sample each");
  app.add_flag("--json", flags->json, "Print JSON")->group("Output");
  app.add_option("--sample", flags->sample, "")->group("");  // hidden: a sample's own process
}

}  // namespace lamina::cli
