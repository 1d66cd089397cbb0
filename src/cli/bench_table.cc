#include "cli/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/error.h"

namespace lamina::cli {
namespace {

std::string Params(uint64_t params) {
  constexpr double kBillion = 1e9;
  constexpr double kMillion = 1e6;
  const auto count = static_cast<double>(params);
  return count >= kBillion ? fmt::format("{:.2f} B", count / kBillion)
                           : fmt::format("{:.2f} M", count / kMillion);
}

double PercentOfBound(const BenchResult& result) {
  return result.bound_bytes_per_s > 0 ? 100 * result.bytes_per_s / result.bound_bytes_per_s : 0;
}

// Cells that have nothing to say are empty.
std::string Number(double value, int decimals) {
  return value > 0 ? fmt::format("{:.{}f}", value, decimals) : std::string();
}

std::string ToMarkdown(const std::vector<BenchResult>& results) {
  using Row = std::array<std::string, 9>;
  std::vector<Row> rows = {{"model", "size", "params", "backend", "ngl", "test", "t/s", "GB/s", "of bound"}};
  for (const BenchResult& result : results) {
    const double percent = PercentOfBound(result);
    rows.push_back({result.model, ApproximateByteSize(result.size_bytes), Params(result.params),
                    result.backend, std::to_string(result.gpu_layers), result.test,
                    fmt::format("{:.2f} ± {:.2f}", result.mean(), result.deviation()),
                    Number(result.bytes_per_s / 1e9, 1),
                    percent > 0 ? fmt::format("{:.1f} %", percent) : std::string()});
  }
  Row::size_type column = 0;
  std::array<size_t, 9> widths{};
  // "±" is one column and two bytes.
  const auto width = [](const std::string& cell) {
    return cell.size() - (cell.find("±") == std::string::npos ? 0 : 1);
  };
  for (const Row& row : rows) {
    for (column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  }
  constexpr size_t kTextColumns = 1;  // aligned left
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (column = 0; column < widths.size(); ++column) {
      const std::string& cell = rows[i][column];
      const std::string padding(widths[column] - width(cell), ' ');
      text += column < kTextColumns ? "| " + cell + padding + " " : "| " + padding + cell + " ";
    }
    text += "|\n";
    if (i > 0) continue;
    for (column = 0; column < widths.size(); ++column) {
      text += "| " + std::string(widths[column] - (column < kTextColumns ? 0 : 1), '-') +
              (column < kTextColumns ? " " : ": ");
    }
    text += "|\n";
  }
  return text;
}

std::string ToJson(const std::vector<BenchResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchResult& result : results) {
    list.push_back({{"model", result.model},
                    {"model_size", result.size_bytes},
                    {"model_n_params", result.params},
                    {"backends", result.backend},
                    {"n_gpu_layers", result.gpu_layers},
                    {"test", result.test},
                    {"n_batch", result.batch},
                    {"avg_ts", result.mean()},
                    {"stddev_ts", result.deviation()},
                    {"samples_ts", result.tokens_per_s},
                    {"bytes_per_s", result.bytes_per_s},
                    {"bound_bytes_per_s", result.bound_bytes_per_s}});
  }
  return list.dump(2) + "\n";
}

// A cell in quotes, with those inside doubled.
std::string Quoted(const std::string& cell) {
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::string ToCsv(const std::vector<BenchResult>& results) {
  std::string text =
      "model,model_size,model_n_params,backends,n_gpu_layers,test,n_batch,avg_ts,stddev_ts,bytes_per_s,"
      "bound_bytes_per_s\n";
  for (const BenchResult& result : results) {
    text += fmt::format("{},{},{},{},{},{},{},{:.6f},{:.6f},{:.0f},{:.0f}\n", Quoted(result.model),
                        result.size_bytes, result.params, Quoted(result.backend), result.gpu_layers,
                        Quoted(result.test), result.batch, result.mean(), result.deviation(),
                        result.bytes_per_s, result.bound_bytes_per_s);
  }
  return text;
}

}  // namespace

Result<BenchFormat> ParseBenchFormat(std::string_view text) {
  if (text == "md") return BenchFormat::kMarkdown;
  if (text == "json") return BenchFormat::kJson;
  if (text == "csv") return BenchFormat::kCsv;
  return InvalidArgumentError("--output: expected md, json or csv, found '{}'", text);
}

double BenchResult::mean() const {
  double sum = 0;
  for (const double rate : tokens_per_s) sum += rate;
  return tokens_per_s.empty() ? 0 : sum / static_cast<double>(tokens_per_s.size());
}

double BenchResult::deviation() const {
  if (tokens_per_s.size() < 2) return 0;
  const double average = mean();
  double squares = 0;
  for (const double rate : tokens_per_s) squares += (rate - average) * (rate - average);
  return std::sqrt(squares / static_cast<double>(tokens_per_s.size() - 1));
}

std::string FormatBenchResults(const std::vector<BenchResult>& results, BenchFormat format) {
  switch (format) {
    case BenchFormat::kJson:
      return ToJson(results);
    case BenchFormat::kCsv:
      return ToCsv(results);
    default:
      return ToMarkdown(results);
  }
}

}  // namespace lamina::cli
