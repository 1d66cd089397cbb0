// How many parameters a model has.
#pragma once

#include <cstdint>

#include "model/graph.h"

namespace lamina::cli {

// Elements of the weights of a graph and its subgraphs, as they were before quantisation: packed matrices
// count their elements, not their bytes. Scales, zero points, rotary tables and integer constants do not
// count.
uint64_t CountParameters(const Graph& graph);

}  // namespace lamina::cli
