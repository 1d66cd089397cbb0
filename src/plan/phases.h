// The ways in which a session runs its graph, each with the bounds of the symbols in its shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"
#include "model/decoder_contract.h"
#include "model/dim_expr.h"
#include "model/graph.h"

namespace lamina {

struct Phase {
  std::string name;  // "prefill", "decode", "run"
  SymbolBounds bounds;
};

// Of a language model: what it may be asked for.
struct DecoderBounds {
  // Names of the symbols in the model's shapes, empty where the dimension is a constant.
  std::string batch_symbol;
  std::string sequence_symbol;
  std::string past_symbol;
  int64_t max_batch = 1;
  int64_t prefill_chunk_tokens = 1;
  int64_t context_length_tokens = 1;
};

// Prefill (one sequence, up to a chunk of tokens) and decode (up to max_batch sequences, one token each),
// both with any past that the context holds.
std::vector<Phase> DecoderPhases(const DecoderBounds& bounds);

// The largest shapes of inputs, from session.max_shape_override: `name:[d0,d1]; name2:[]`.
using ShapeOverrides = std::vector<std::pair<std::string, Shape>>;
// INVALID_ARGUMENT for an empty entry (a ';' at the end makes one), a missing ':', a shape that is not in
// brackets, an empty name, a name twice, dimensions that are empty, no numbers or not positive.
Result<ShapeOverrides> ParseShapeOverrides(std::string_view text);

// The symbols of the named inputs, from 0 to what the overrides give them. INVALID_ARGUMENT where a name is
// no input of the graph, the rank differs, a dimension is fixed to another number, or two overrides give one
// symbol two numbers.
Result<SymbolBounds> BoundsOfOverrides(const Graph& graph, const ShapeOverrides& overrides);

}  // namespace lamina
