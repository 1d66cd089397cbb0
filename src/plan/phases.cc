#include "plan/phases.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace lamina {
namespace {

constexpr std::string_view kKey = "session.max_shape_override";

Result<int64_t> ParseDim(std::string_view text) {
  if (text.empty()) return InvalidArgumentError("{}: empty dimension", kKey);
  int64_t dim = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgumentError("{}: invalid dimension '{}'", kKey, text);
  }
  if (dim <= 0) return InvalidArgumentError("{}: dimensions must be positive, got {}", kKey, dim);
  return dim;
}

Result<Shape> ParseDims(std::string_view name, std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return InvalidArgumentError("{}: the shape must be enclosed in [] for '{}', found '{}'", kKey, name,
                                text);
  }
  text = TrimSpaces(text.substr(1, text.size() - 2));
  Shape shape;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    LAMINA_ASSIGN_OR_RETURN(const int64_t dim, ParseDim(TrimSpaces(text.substr(begin, end - begin))));
    if (shape.rank() == Shape::kMaxRank) {
      return InvalidArgumentError("{}: '{}' has more than {} dimensions", kKey, name, Shape::kMaxRank);
    }
    shape.Append(dim);
    begin = end + 1;
  }
  return shape;
}

}  // namespace

std::vector<Phase> DecoderPhases(const DecoderBounds& bounds) {
  const auto phase = [&](const char* name, int64_t max_batch, int64_t max_tokens) {
    Phase made;
    made.name = name;
    if (!bounds.batch_symbol.empty()) made.bounds[bounds.batch_symbol] = {1, max_batch};
    if (!bounds.sequence_symbol.empty()) made.bounds[bounds.sequence_symbol] = {1, max_tokens};
    if (!bounds.past_symbol.empty()) made.bounds[bounds.past_symbol] = {0, bounds.context_length_tokens - 1};
    return made;
  };
  const int64_t chunk = std::min(bounds.prefill_chunk_tokens, bounds.context_length_tokens);
  return {phase("prefill", 1, chunk), phase("decode", bounds.max_batch, 1)};
}

Result<ShapeOverrides> ParseShapeOverrides(std::string_view text) {
  ShapeOverrides overrides;
  if (TrimSpaces(text).empty()) return overrides;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string_view entry = TrimSpaces(text.substr(begin, end - begin));
    if (entry.empty()) return InvalidArgumentError("{}: empty entry at position {}", kKey, begin);
    // Names may hold colons; the shape never does.
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos) {
      return InvalidArgumentError("{}: missing ':' in '{}'", kKey, entry);
    }
    std::string name(TrimSpaces(entry.substr(0, colon)));
    if (name.empty()) return InvalidArgumentError("{}: empty name in '{}'", kKey, entry);
    for (const auto& [other, shape] : overrides) {
      if (other == name) return InvalidArgumentError("{}: duplicate entry '{}'", kKey, name);
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, ParseDims(name, TrimSpaces(entry.substr(colon + 1))));
    overrides.emplace_back(std::move(name), shape);
    begin = end + 1;
  }
  return overrides;
}

Result<SymbolBounds> BoundsOfOverrides(const Graph& graph, const ShapeOverrides& overrides) {
  SymbolBounds bounds;
  for (const auto& [name, shape] : overrides) {
    const ValueId id = graph.FindValue(name);
    if (!id.valid() || !graph.value(id).is_graph_input) {
      return InvalidArgumentError("{}: '{}' is not a graph input", kKey, name);
    }
    const std::optional<SymbolicShape>& declared = graph.value(id).shape;
    if (!declared) continue;
    if (declared->rank() != shape.rank()) {
      return InvalidArgumentError("{}: rank mismatch for '{}': model rank {}, override rank {}", kKey, name,
                                  declared->rank(), shape.rank());
    }
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const DimExpr& dim = declared->dims[static_cast<size_t>(axis)];
      if (const std::optional<int64_t> fixed = dim.constant()) {
        if (*fixed == shape[axis]) continue;
        return InvalidArgumentError("{}: dimension {} of '{}' is static ({}) but the override specifies {}",
                                    kKey, axis, name, *fixed, shape[axis]);
      }
      if (dim.symbol().empty()) continue;
      const auto [entry, added] = bounds.try_emplace(std::string(dim.symbol()), DimBounds{0, shape[axis]});
      if (!added && entry->second.max != shape[axis]) {
        return InvalidArgumentError("{}: '{}' is {} by one override and {} by that of '{}'", kKey,
                                    dim.symbol(), entry->second.max, shape[axis], name);
      }
    }
  }
  return bounds;
}

}  // namespace lamina
