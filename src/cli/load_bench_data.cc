#include "cli/load_bench_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/thread_pool.h"
#include "model/onnx/model_reader.h"
#include "weights/external_data.h"

namespace lamina::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kAlignment = 4096;

// Adds every constant of a graph and its subgraphs that lies in another file.
Status AddExternal(const Graph& graph, ExternalData& data, LoadBenchData& result,
                   std::set<std::tuple<const File*, uint64_t, uint64_t>>& seen) {
  for (const Initializer& initializer : graph.initializers()) {
    if (!initializer.is_external()) continue;
    LAMINA_ASSIGN_OR_RETURN(const FileRange range, data.Locate(initializer));
    if (!seen.emplace(range.file.get(), range.offset_bytes, range.length_bytes).second) continue;
    result.names.push_back(initializer.name.str());
    result.items.push_back(
        {{}, range.file, range.offset_bytes, range.length_bytes, initializer.type, nullptr, Device{}});
  }
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* subgraph : node.Subgraphs()) {
      LAMINA_RETURN_IF_ERROR(AddExternal(*subgraph, data, result, seen));
    }
  }
  return Status();
}

void Finish(LoadBenchData& data) {
  for (size_t i = 0; i < data.items.size(); ++i) {
    ExternalDataItem& item = data.items[i];
    item.name = data.names[i];
    data.item_bytes += item.size_bytes;
    if (std::find(data.files.begin(), data.files.end(), item.file) == data.files.end()) {
      data.files.push_back(item.file);
    }
  }
}

// 8 bytes from 8 bytes, all different: a step of the generator splitmix64.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Result<LoadBenchData> ModelLoadData(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, ReadModel(path));
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<ExternalData> external, ExternalData::Open(*model));
  LoadBenchData data;
  std::set<std::tuple<const File*, uint64_t, uint64_t>> seen;
  LAMINA_RETURN_IF_ERROR(AddExternal(*model->graph, *external, data, seen));
  if (data.items.empty()) return InvalidModelError("{}: expected external data, found none", path);
  Finish(data);
  return data;
}

Result<LoadBenchData> SyntheticLoadData(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, SystemFiles().Open(path));
  // A decoder layer: attention and feed-forward projections, their scales, norms of a few kilobytes.
  constexpr std::array<uint64_t, 10> kLayerBytes = {32 * kMiB,  8 * kMiB,   8 * kMiB,   32 * kMiB, 8192,
                                                    112 * kMiB, 112 * kMiB, 112 * kMiB, 8192,      kMiB + 52};
  LoadBenchData data;
  uint64_t offset = 0;
  for (size_t i = 0; offset < file->size_bytes(); ++i) {
    const uint64_t size_bytes = std::min(kLayerBytes[i % kLayerBytes.size()], file->size_bytes() - offset);
    data.names.push_back(fmt::format("layers.{}.{}", i / kLayerBytes.size(), i % kLayerBytes.size()));
    data.items.push_back({{}, file, offset, size_bytes, DataType::kUint8, nullptr, Device{}});
    offset = (offset + size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  Finish(data);
  return data;
}

Status WriteSyntheticWeights(const std::string& path, uint64_t size_bytes) {
  const Result<std::shared_ptr<const File>> existing = SystemFiles().Open(path);
  if (existing.ok() && (*existing)->size_bytes() == size_bytes) return Status();
  LAMINA_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(path));
  std::string chunk(64 * kMiB, '\0');
  ThreadPool pool;
  for (uint64_t offset = 0; offset < size_bytes; offset += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(chunk.size(), size_bytes - offset)));
    const auto words = static_cast<int64_t>((chunk.size() + 7) / 8);
    pool.ParallelFor(words, 1 << 16, [&](int64_t begin, int64_t end, int /*worker*/) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t value = Mix(offset / 8 + static_cast<uint64_t>(i));
        const auto at = static_cast<size_t>(i) * 8;
        std::memcpy(&chunk[at], &value, std::min(sizeof(value), chunk.size() - at));
      }
    });
    LAMINA_RETURN_IF_ERROR(writer.Append(chunk));
  }
  return writer.Commit();
}

}  // namespace lamina::cli
