// Which inputs and outputs of a model carry state from one run to the next, and how a cache holds it.
//
// In place: a past input that only an attention kernel reads and a present output that only it writes. The
// cache keeps one buffer for both, and the kernel appends to it. Carried: any other pair (attention made of
// plain operators, convolution states). Past and present are ordinary tensors; the cache keeps two buffers
// and swaps them after each run.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "runtime/executable.h"

namespace lamina {

struct InPlaceKv {
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
  std::vector<InPlaceKv> in_place;  // indexed by Step::kv_layer
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

// Finds the layout of the main graph for the given pairs and marks the steps of `executable` that work in
// place. UNSUPPORTED where a carried state has a dimension that is neither constant, batch nor past.
Result<KvLayout> MakeKvLayout(const std::vector<StatePair>& pairs, std::string batch_symbol,
                              std::string past_symbol, Executable& executable);

}  // namespace lamina
