#include "placement/node_stats.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/murmur_hash.h"
#include "base/text.h"

namespace lamina {
namespace {

constexpr std::string_view kHeader =
    "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n";

// All fields, empty ones too.
std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    fields.push_back(TrimSpaces(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return fields;
}

}  // namespace

std::string NodeStatsName(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::array<uint32_t, 4> hash = {0, 0, 0, 0};
  const auto add = [&](const std::vector<ValueId>& values) {
    for (const ValueId value : values) {
      const std::string_view name = value.valid() ? graph.value(value).name.view() : std::string_view();
      hash = MurmurHash3X86128(std::as_bytes(std::span(name)), hash[0]);
    }
  };
  add(node.inputs);
  add(node.outputs);
  const uint64_t number = hash[0] | uint64_t{hash[1]} << 32;
  return fmt::format("{}_{}", node.name.view().empty() ? node.op_type.view() : node.name.view(), number);
}

Result<NodeMemoryStatsTable> NodeMemoryStatsTable::Parse(std::string_view text) {
  NodeMemoryStatsTable table;
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = TrimSpaces(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> fields = SplitFields(line);
    if (fields.size() != 5) {
      return InvalidArgumentError("line {}: expected 5 fields, found {}", line_number, fields.size());
    }
    if (fields[0].empty()) continue;
    NodeMemoryStats stats;
    uint64_t* const figures[] = {&stats.input_bytes, &stats.initializer_bytes, &stats.dynamic_bytes,
                                 &stats.temporary_bytes};
    for (size_t i = 0; i < 4; ++i) {
      const std::string_view field = fields[i + 1];
      const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), *figures[i]);
      if (error != std::errc() || stop != field.data() + field.size()) {
        return InvalidArgumentError("line {}: expected a number of bytes, found '{}'", line_number, field);
      }
    }
    table.stats_.insert_or_assign(std::string(fields[0]), stats);
  }
  return table;
}

Result<NodeMemoryStatsTable> NodeMemoryStatsTable::Read(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, SystemFiles().Open(path));
  LAMINA_ASSIGN_OR_RETURN(const MappedRegion region, file->Map(0, file->size_bytes()));
  const std::span<const std::byte> bytes = region.bytes();
  Result<NodeMemoryStatsTable> table =
      Parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!table.ok()) return table.status().WithContext(path);
  return table;
}

const NodeMemoryStats* NodeMemoryStatsTable::Find(std::string_view name) const {
  const auto found = stats_.find(name);
  return found == stats_.end() ? nullptr : &found->second;
}

void NodeMemoryStatsTable::UpdateIfGreater(const std::string& name, const NodeMemoryStats& stats) {
  NodeMemoryStats& kept = stats_[name];
  kept.input_bytes = std::max(kept.input_bytes, stats.input_bytes);
  kept.initializer_bytes = std::max(kept.initializer_bytes, stats.initializer_bytes);
  kept.dynamic_bytes = std::max(kept.dynamic_bytes, stats.dynamic_bytes);
  kept.temporary_bytes = std::max(kept.temporary_bytes, stats.temporary_bytes);
}

std::string NodeMemoryStatsTable::ToCsv() const {
  std::string text(kHeader);
  for (const auto& [name, stats] : stats_) {
    text += fmt::format("{},{},{},{},{}\n", name, stats.input_bytes, stats.initializer_bytes,
                        stats.dynamic_bytes, stats.temporary_bytes);
  }
  return text;
}

}  // namespace lamina
