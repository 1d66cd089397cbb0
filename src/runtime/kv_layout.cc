#include "runtime/kv_layout.h"

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

std::optional<InPlaceKv> InPlaceOf(const Graph& graph, const Step& step,
                                   const std::vector<StatePair>& pairs) {
  const KernelDef::KvIndices& kv = step.info->def.kv_cache();
  if (!kv.valid()) return {};
  InPlaceKv layer;
  layer.past_key_input = OwnGraphInput(graph, *step.node, kv.past_key);
  layer.past_value_input = OwnGraphInput(graph, *step.node, kv.past_value);
  layer.present_key_output = OwnGraphOutput(graph, *step.node, kv.present_key);
  layer.present_value_output = OwnGraphOutput(graph, *step.node, kv.present_value);
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

}  // namespace

uint64_t InPlaceKv::token_bytes() const {
  const auto bits = static_cast<uint64_t>(DataTypeBits(type));
  return static_cast<uint64_t>(kv_heads) * static_cast<uint64_t>(key_head_size + value_head_size) * bits / 8;
}

Result<KvLayout> MakeKvLayout(const std::vector<StatePair>& pairs, std::string batch_symbol,
                              std::string past_symbol, Executable& executable) {
  const Graph& graph = executable.graph();
  KvLayout layout;
  layout.batch_symbol = std::move(batch_symbol);
  layout.past_symbol = std::move(past_symbol);
  std::vector<StatePair> left = pairs;
  const auto take = [&](int32_t input) {
    std::erase_if(left, [&](const StatePair& pair) { return pair.input == input; });
  };
  for (Step& step : executable.mutable_steps()) {
    const std::optional<InPlaceKv> layer = InPlaceOf(graph, step, left);
    if (!layer) continue;
    step.kv_layer = static_cast<int32_t>(layout.in_place.size());
    layout.in_place.push_back(*layer);
    layout.in_place.back().device = step.device;
    take(layer->past_key_input);
    take(layer->past_value_input);
  }
  layout.ragged =
      left.empty() && std::all_of(executable.steps().begin(), executable.steps().end(), [](const Step& step) {
        return step.kv_layer < 0 || step.node->op_type == "GroupQueryAttention";
      });
  for (const StatePair& pair : left) {
    const ValueInfo& value = graph.value(graph.inputs()[static_cast<size_t>(pair.input)]);
    CarriedState state;
    state.input = pair.input;
    state.output = pair.output;
    state.type = value.type.element;
    state.device = executable.DeviceOf(graph.inputs()[static_cast<size_t>(pair.input)]);
    if (executable.DeviceOf(graph.outputs()[static_cast<size_t>(pair.output)]) != state.device) {
      state.device = executable.host();
    }
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

}  // namespace lamina
