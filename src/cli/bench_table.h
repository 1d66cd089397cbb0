// The results of `lamina bench run` as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"

namespace lamina::cli {

enum class BenchFormat { kMarkdown, kJson, kCsv };

// INVALID_ARGUMENT for anything but md, json and csv.
Result<BenchFormat> ParseBenchFormat(std::string_view text);

// One test of one model.
struct BenchResult {
  std::string model;
  uint64_t size_bytes = 0;  // of weights
  uint64_t params = 0;
  std::string backend;               // "CPU", "CUDA"
  int64_t gpu_layers = 0;            // layers and ends on accelerators
  std::string test;                  // "pp512", "tg128 @ d4096"
  int64_t batch = 1;                 // sequences
  std::vector<double> tokens_per_s;  // of all sequences together, by repetition
  // Of generation: weights read for each step, and how fast memory could be read; 0: not known.
  double bytes_per_s = 0;
  double bound_bytes_per_s = 0;

  double mean() const;
  double deviation() const;  // of the sample
};

// llama-bench's columns, and GB/s and percent of the bound.
std::string FormatBenchResults(const std::vector<BenchResult>& results, BenchFormat format);

}  // namespace lamina::cli
