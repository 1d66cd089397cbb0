#include "runtime/run_pattern.h"

#include <algorithm>
#include <set>
#include <string>

namespace lamina {

bool CanUsePatterns(const Graph& graph) {
  std::set<std::string, std::less<>> known;
  for (const ValueId id : graph.inputs()) {
    const ValueInfo& input = graph.value(id);
    if (!input.shape) continue;
    for (const DimExpr& dim : input.shape->dims) {
      if (!dim.symbol().empty()) known.emplace(dim.symbol());
    }
  }
  const auto follows_from_inputs = [&](const DimExpr& dim) {
    if (!dim.known()) return false;
    const std::vector<std::string> symbols = dim.Symbols();
    return std::all_of(symbols.begin(), symbols.end(),
                       [&](const std::string& symbol) { return known.count(symbol) > 0; });
  };
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    if (!node.Subgraphs().empty()) return false;
    for (const ValueId id : node.outputs) {
      if (!id.valid()) continue;
      const ValueInfo& value = graph.value(id);
      if (!value.type.is_tensor() || !value.shape) return false;
      if (!std::all_of(value.shape->dims.begin(), value.shape->dims.end(), follows_from_inputs)) return false;
    }
  }
  return true;
}

PatternBlocks::~PatternBlocks() {
  for (size_t device = 0; device < blocks_.size(); ++device) {
    if (blocks_[device].memory) allocators_[device]->Free(blocks_[device].memory);
  }
}

Result<std::byte*> PatternBlocks::Take(int32_t device, int64_t size_bytes) {
  blocks_.resize(allocators_.size());
  Block& block = blocks_[static_cast<size_t>(device)];
  Allocator& allocator = *allocators_[static_cast<size_t>(device)];
  if (block.size_bytes >= size_bytes) return block.memory;
  if (block.memory) allocator.Free(block.memory);
  block = {};
  LAMINA_ASSIGN_OR_RETURN(void* memory, allocator.Alloc(static_cast<uint64_t>(size_bytes)));
  block = {static_cast<std::byte*>(memory), size_bytes};
  return block.memory;
}

RunPattern RunPattern::Tracing(const Graph& graph) {
  RunPattern pattern;
  pattern.graph_ = &graph;
  pattern.trace_ = std::make_shared<Trace>();
  return pattern;
}

RunPattern RunPattern::Replaying(const Graph& graph, std::shared_ptr<const MemoryPatternGroup> patterns,
                                 const SessionDevices& devices, PatternBlocks& blocks) {
  RunPattern pattern;
  pattern.graph_ = &graph;
  pattern.patterns_ = std::move(patterns);
  pattern.places_.resize(devices.size());
  for (size_t device = 0; device < devices.size(); ++device) {
    const MemoryPattern* found = pattern.patterns_->Find(devices[device].device());
    if (!found) continue;
    const Result<std::byte*> memory = blocks.Take(static_cast<int32_t>(device), found->peak_bytes());
    if (memory.ok()) pattern.places_[device] = {found, *memory};
  }
  return pattern;
}

std::byte* RunPattern::Find(int32_t device, int32_t value, uint64_t bytes) const {
  if (places_.empty()) return nullptr;
  const Place& place = places_[static_cast<size_t>(device)];
  if (!place.pattern) return nullptr;
  const std::optional<MemoryPattern::Block> block = place.pattern->Find(value);
  if (!block || static_cast<uint64_t>(block->size_bytes) < bytes) return nullptr;
  return place.memory + block->offset_bytes;
}

bool RunPattern::Holds(const Tensor& tensor) const {
  const auto* memory = static_cast<const std::byte*>(tensor.raw_data());
  return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
    return place.pattern && memory >= place.memory && memory < place.memory + place.pattern->peak_bytes();
  });
}

Result<MemoryPatternGroup> RunPattern::FinishTrace() { return trace_->Finish(); }

void RunPattern::Trace::Allocated(Device device, int32_t value, uint64_t bytes) {
  if (!finished_) tracer_.Allocated(device, value, static_cast<int64_t>(bytes));
}

void RunPattern::Trace::Freed(Device device, int32_t value) {
  if (!finished_) tracer_.Freed(device, value);
}

Result<MemoryPatternGroup> RunPattern::Trace::Finish() {
  finished_ = true;
  return tracer_.Finish();
}

}  // namespace lamina
