// Infers the type and shape of every value of a model, subgraphs included.
//
// A shape is known dimension by dimension as an expression of the symbols of the graph's inputs. Shape
// arithmetic (Shape, Gather, Concat, Mul, ... on small integer tensors) is evaluated on symbolic values, so
// that the shapes of a Reshape or Expand are such expressions too. A dimension that only a run can tell
// (NonZero) becomes a fresh symbol: DataDependentDim(value, axis).
//
// The shape of a sequence or optional is that of its tensors; dimensions that may differ between them are
// DimExpr::Unknown().
//
// What is inferred is merged with what the file declares:
//   - another type, and for an output of the graph another constant or rank: INVALID_MODEL at the node.
//   Shapes
//     declared elsewhere are often stale: there what is inferred wins, with a message at level info;
//   - an inferred dimension made of input symbols is kept, whatever symbol the file declares for it;
//   - else the file's expression replaces a fresh symbol.
// Broadcasting of two dimensions: equal ones stay; 1 yields to the other; a constant above 1 wins over an
// expression; two different expressions give Max of both (exact unless one is 0 while the other is 1).
// Where an operator needs two dimensions to be the same number and one is a symbol, the symbol is replaced by
// the other everywhere, in the inputs of the graph too: so attention gives the head size of a KV cache that
// the file leaves symbolic.
//
// These functions also check every node of a known operator: numbers and types of inputs and outputs,
// required attributes, shapes. Nodes of an operator that is not known are passed over; their outputs keep
// what the file declares.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/dim_expr.h"
#include "model/model.h"

namespace lamina {

// Only constants of at most this size are looked at.
inline constexpr uint64_t kMaxInferenceConstantBytes = 64 * 1024;
// Symbolic values are kept for tensors of at most this many elements: integers, bools, and floats that are
// known to be whole numbers (exports compute sizes through floats).
inline constexpr int64_t kMaxSymbolicElements = 64;

// The elements of a small tensor as expressions (bool as 0 and 1); unknown ones are DimExpr::Unknown().
using SymbolicElements = std::shared_ptr<const std::vector<DimExpr>>;

// Known elements of the values of a graph, by index of ValueId.
using KnownElements = std::map<const Graph*, std::map<int32_t, SymbolicElements>>;

struct InferenceOptions {
  // Reads a constant of at most kMaxInferenceConstantBytes from external data. Without it such constants have
  // no known elements.
  std::function<Result<Tensor>(const Initializer&)> read_external;
  // Filled with the elements of all values that are known, where set: what shape arithmetic comes to.
  KnownElements* known_elements = nullptr;
};

// Fills ValueInfo::type and ::shape of all graphs. Idempotent. The order of nodes in the result depends on
// nothing but the model. After an error the types are partly filled.
Status InferShapes(Model& model, const InferenceOptions& options = {});

}  // namespace lamina
