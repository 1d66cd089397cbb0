// How many bytes of its inputs a step reads, where that is less than there is: what its time is bound by.
#pragma once

#include <cstdint>

#include "lamina/types.h"
#include "runtime/executable.h"

namespace lamina {

// The share, 0 to 1, of input `input` with shape `shape` that `node` reads for `rows` rows: looked-up rows of
// a table (Gather, GatherBlockQuantized), the chosen experts of a mixture at best (MoE, QMoE), else all of
// it.
double ShareRead(const Node& node, size_t input, const Shape& shape, int64_t rows);

// Counts every constant of the main graph as kernels read it: packed where it was packed, one row of a
// looked-up table, the chosen share of a mixture's experts.
uint64_t WeightBytesPerToken(const Executable& executable);

}  // namespace lamina
