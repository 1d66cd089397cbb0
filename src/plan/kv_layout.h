// Which inputs and outputs of a model carry state from one run to the next, and how a cache holds it.
//
// In place: a past input that only an attention kernel reads and a present output that only it writes. The
// cache keeps one buffer for both, and the kernel appends to it. Carried: any other pair (attention made of
// plain operators, convolution states). Past and present are ordinary tensors; the cache keeps two buffers
// and swaps them after each run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "model/decoder_contract.h"
#include "model/graph.h"
#include "provider/kernel_registry.h"

namespace lamina {

struct InPlaceKv {
  NodeId node;  // the attention node
  // Positions among the graph's inputs and outputs.
  int32_t past_key_input = -1;
  int32_t past_value_input = -1;
  int32_t present_key_output = -1;
  int32_t present_value_output = -1;
  DataType type = DataType::kUndefined;
  int32_t kv_heads = 0;
  int32_t key_head_size = 0;
  int32_t value_head_size = 0;
  int32_t device = 0;  // of the attention node, among the session's

  // Bytes of keys and values of one token.
  uint64_t token_bytes() const;
};

struct CarriedState {
  int32_t input = -1;
  int32_t output = -1;
  DataType type = DataType::kUndefined;
  // Of the input, in symbols of the graph; evaluated with the batch and the past of a run.
  SymbolicShape shape;
  // Axis that counts past tokens, or -1 where the size does not change.
  int32_t token_axis = -1;
  // Where it is read and made; the host where that is not the same device.
  int32_t device = 0;
};

struct KvLayout {
  std::vector<InPlaceKv> in_place;
  std::vector<CarriedState> carried;
  // Symbols of the batch and of the past in the shapes of past inputs, empty where they are constants.
  std::string batch_symbol;
  std::string past_symbol;

  // Every in-place kernel takes each row's length from the cache, not from a mask that all rows share.
  bool ragged = false;

  bool empty() const { return in_place.empty() && carried.empty(); }
};

// A past input and the present output that follows it.
struct StatePair {
  int32_t input = -1;
  int32_t output = -1;
};

// Where the value called `name` stands among `ids`, or -1.
int32_t PositionOf(const Graph& graph, std::span<const ValueId> ids, const std::string& name);

// The pairs of a decoder's main graph: keys and values by layer, then its other states.
std::vector<StatePair> StatePairsOf(const Graph& graph, const DecoderSignature& decoder);

// Finds the layout of the main graph for the given pairs. `definition_of` a node is that of the kernel that
// runs it. All is on device 0: the caller, who knows the placement, says otherwise. UNSUPPORTED where a
// carried state has a dimension that is neither constant, batch nor past.
Result<KvLayout> MakeKvLayout(const Graph& graph, std::span<const NodeId> order,
                              const std::vector<StatePair>& pairs, std::string batch_symbol,
                              std::string past_symbol,
                              const std::function<const KernelDef&(NodeId)>& definition_of);

// How the buffers of a cache of `slots` sequences of up to `capacity_tokens` lie in one block on each device,
// each rounded up to kKvAlignment. `device` of the layout's entries says where; the host is the last device.
inline constexpr uint64_t kKvAlignment = 256;
struct KvCacheSizes {
  struct Piece {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
  };
  struct Block {
    uint64_t size_bytes = 0;
    // Where the slots and lengths of a run's rows are copied to, on devices other than the host with in-place
    // layers.
    std::optional<uint64_t> rows;
  };
  std::vector<Piece> planes;   // keys and values of each in-place layer in turn
  std::vector<Piece> carried;  // of each carried state, two buffers for each slot
  std::vector<Block> blocks;   // by device
};
// INVALID_ARGUMENT where a block passes 2^50 bytes.
Result<KvCacheSizes> SizesOfKvCache(const KvLayout& layout, int64_t slots, int64_t capacity_tokens,
                                    size_t num_devices);

// The shape of one sequence's carried state with `past_tokens` in it.
Result<Shape> CarriedShape(const KvLayout& layout, const CarriedState& state, int64_t past_tokens);

}  // namespace lamina
