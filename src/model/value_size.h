// How large a value can get.
#pragma once

#include <cstdint>

#include "lamina/status.h"
#include "model/graph.h"

namespace lamina {

// Bytes of the tensor at the largest its shape takes under the bounds. UNSUPPORTED, naming the value and what
// is not known, where it is no tensor of elements of fixed size, or a dimension or the rank has no bound.
Result<uint64_t> LargestBytes(const Graph& graph, ValueId id, const SymbolBounds& bounds);

}  // namespace lamina
