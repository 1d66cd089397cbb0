#include "plan/kv_layout.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace lamina {
namespace {

int32_t IndexOf(std::span<const ValueId> ids, ValueId id) {
  const auto found = std::find(ids.begin(), ids.end(), id);
  return found == ids.end() ? -1 : static_cast<int32_t>(found - ids.begin());
}

// Where node's input `index` is a graph input that nothing else reads, its position; else -1.
int32_t OwnGraphInput(const Graph& graph, const Node& node, int index) {
  if (index >= static_cast<int>(node.inputs.size())) return -1;
  const ValueId id = node.inputs[static_cast<size_t>(index)];
  if (!id.valid() || graph.value(id).uses.size() != 1 || graph.value(id).is_graph_output) return -1;
  return IndexOf(graph.inputs(), id);
}

int32_t OwnGraphOutput(const Graph& graph, const Node& node, int index) {
  if (index >= static_cast<int>(node.outputs.size())) return -1;
  const ValueId id = node.outputs[static_cast<size_t>(index)];
  if (!id.valid() || !graph.value(id).uses.empty()) return -1;
  return IndexOf(graph.outputs(), id);
}

bool IsPair(const std::vector<StatePair>& pairs, int32_t input, int32_t output) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const StatePair& pair) { return pair.input == input && pair.output == output; });
}

// [batch, kv_heads, past, head_size] with constant heads and head size, else nothing.
struct PlaneShape {
  int32_t heads = 0;
  int32_t head_size = 0;
};
std::optional<PlaneShape> PlaneShapeOf(const Graph& graph, int32_t input) {
  const ValueInfo& value = graph.value(graph.inputs()[static_cast<size_t>(input)]);
  if (!value.shape || value.shape->rank() != 4) return {};
  const std::optional<int64_t> heads = value.shape->dims[1].constant();
  const std::optional<int64_t> head_size = value.shape->dims[3].constant();
  if (!heads || !head_size || *heads <= 0 || *head_size <= 0 || *heads > INT32_MAX || *head_size > INT32_MAX)
    return {};
  return PlaneShape{static_cast<int32_t>(*heads), static_cast<int32_t>(*head_size)};
}

std::optional<InPlaceKv> InPlaceOf(const Graph& graph, NodeId id, const KernelDef& definition,
                                   const std::vector<StatePair>& pairs) {
  const KernelDef::KvIndices& kv = definition.kv_cache();
  if (!kv.valid()) return {};
  const Node& node = graph.node(id);
  InPlaceKv layer;
  layer.node = id;
  layer.past_key_input = OwnGraphInput(graph, node, kv.past_key);
  layer.past_value_input = OwnGraphInput(graph, node, kv.past_value);
  layer.present_key_output = OwnGraphOutput(graph, node, kv.present_key);
  layer.present_value_output = OwnGraphOutput(graph, node, kv.present_value);
  if (!IsPair(pairs, layer.past_key_input, layer.present_key_output) ||
      !IsPair(pairs, layer.past_value_input, layer.present_value_output)) {
    return {};
  }
  const std::optional<PlaneShape> key = PlaneShapeOf(graph, layer.past_key_input);
  const std::optional<PlaneShape> value = PlaneShapeOf(graph, layer.past_value_input);
  if (!key || !value || key->heads != value->heads) return {};
  layer.kv_heads = key->heads;
  layer.key_head_size = key->head_size;
  layer.value_head_size = value->head_size;
  layer.type = graph.value(graph.inputs()[static_cast<size_t>(layer.past_key_input)]).type.element;
  return layer;
}

constexpr uint64_t kMaxCacheBytes = uint64_t{1} << 50;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kKvAlignment - 1) / kKvAlignment * kKvAlignment; }

// Product of non-negative factors, saturated above kMaxCacheBytes so that sums cannot overflow.
uint64_t Product(std::initializer_list<int64_t> factors) {
  uint64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(factor), &product) ||
        product > kMaxCacheBytes) {
      product = kMaxCacheBytes + 1;
    }
  }
  return product;
}

}  // namespace

int32_t PositionOf(const Graph& graph, std::span<const ValueId> ids, const std::string& name) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (graph.value(ids[i]).name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

std::vector<StatePair> StatePairsOf(const Graph& graph, const DecoderSignature& decoder) {
  std::vector<StatePair> pairs;
  const auto add = [&](const DecoderPort& past, const DecoderPort& present) {
    pairs.push_back(
        {PositionOf(graph, graph.inputs(), past.name), PositionOf(graph, graph.outputs(), present.name)});
  };
  for (const DecoderKvLayer& layer : decoder.kv_layers) {
    add(layer.past_key, layer.present_key);
    add(layer.past_value, layer.present_value);
  }
  for (const DecoderStateLayer& layer : decoder.state_layers) add(layer.past, layer.present);
  return pairs;
}

uint64_t InPlaceKv::token_bytes() const {
  const auto bits = static_cast<uint64_t>(DataTypeBits(type));
  return static_cast<uint64_t>(kv_heads) * static_cast<uint64_t>(key_head_size + value_head_size) * bits / 8;
}

Result<KvLayout> MakeKvLayout(const Graph& graph, std::span<const NodeId> order,
                              const std::vector<StatePair>& pairs, std::string batch_symbol,
                              std::string past_symbol,
                              const std::function<const KernelDef&(NodeId)>& definition_of) {
  KvLayout layout;
  layout.batch_symbol = std::move(batch_symbol);
  layout.past_symbol = std::move(past_symbol);
  std::vector<StatePair> left = pairs;
  const auto take = [&](int32_t input) {
    std::erase_if(left, [&](const StatePair& pair) { return pair.input == input; });
  };
  layout.ragged = true;
  for (const NodeId id : order) {
    const std::optional<InPlaceKv> layer = InPlaceOf(graph, id, definition_of(id), left);
    if (!layer) continue;
    layout.in_place.push_back(*layer);
    layout.ragged = layout.ragged && graph.node(id).op_type == "GroupQueryAttention";
    take(layer->past_key_input);
    take(layer->past_value_input);
  }
  layout.ragged = layout.ragged && left.empty();
  for (const StatePair& pair : left) {
    const ValueInfo& value = graph.value(graph.inputs()[static_cast<size_t>(pair.input)]);
    CarriedState state;
    state.input = pair.input;
    state.output = pair.output;
    state.type = value.type.element;
    if (!value.shape) return UnsupportedError("state input '{}' has no declared rank", value.name.view());
    state.shape = *value.shape;
    for (int axis = 0; axis < state.shape.rank(); ++axis) {
      const DimExpr& dim = state.shape.dims[static_cast<size_t>(axis)];
      if (dim.is_constant() || dim.symbol() == layout.batch_symbol) continue;
      if (dim.symbol() != layout.past_symbol || dim.symbol().empty()) {
        return UnsupportedError(
            "state input '{}' has the shape {}: expected constants, the batch '{}' and the past '{}'",
            value.name.view(), state.shape.ToString(), layout.batch_symbol, layout.past_symbol);
      }
      state.token_axis = axis;
    }
    layout.carried.push_back(std::move(state));
  }
  return layout;
}

Result<Shape> CarriedShape(const KvLayout& layout, const CarriedState& state, int64_t past_tokens) {
  SymbolValues values;
  if (!layout.batch_symbol.empty()) values[layout.batch_symbol] = 1;
  if (!layout.past_symbol.empty()) values[layout.past_symbol] = past_tokens;
  return state.shape.Evaluate(values);
}

Result<KvCacheSizes> SizesOfKvCache(const KvLayout& layout, int64_t slots, int64_t capacity_tokens,
                                    size_t num_devices) {
  KvCacheSizes sizes;
  sizes.blocks.resize(num_devices);
  const auto add = [&](int32_t device, uint64_t bytes) {
    KvCacheSizes::Block& block = sizes.blocks[static_cast<size_t>(device)];
    const KvCacheSizes::Piece piece{block.size_bytes,
                                    std::min(RoundUp(bytes), kMaxCacheBytes + kKvAlignment)};
    block.size_bytes = std::min(block.size_bytes + piece.size_bytes, 2 * kMaxCacheBytes);
    return piece;
  };
  for (const InPlaceKv& layer : layout.in_place) {
    const int64_t element_bytes = DataTypeBits(layer.type) / 8;
    for (const int32_t head_size : {layer.key_head_size, layer.value_head_size}) {
      sizes.planes.push_back(
          add(layer.device, Product({slots, layer.kv_heads, capacity_tokens, head_size, element_bytes})));
    }
  }
  for (const CarriedState& state : layout.carried) {
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, CarriedShape(layout, state, capacity_tokens));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(state.type, shape));
    for (int64_t buffer = 0; buffer < 2 * slots; ++buffer) sizes.carried.push_back(add(state.device, bytes));
  }
  for (const InPlaceKv& layer : layout.in_place) {
    const bool on_host = static_cast<size_t>(layer.device) + 1 == num_devices;
    KvCacheSizes::Block& block = sizes.blocks[static_cast<size_t>(layer.device)];
    if (on_host || block.rows) continue;
    block.rows = block.size_bytes;
    block.size_bytes += RoundUp(Product({2, slots, sizeof(int32_t)}));
  }
  for (const KvCacheSizes::Block& block : sizes.blocks) {
    if (block.size_bytes > kMaxCacheBytes) {
      return InvalidArgumentError("a KV cache of {} sequences of {} tokens is too large to address", slots,
                                  capacity_tokens);
    }
  }
  return sizes;
}

}  // namespace lamina
