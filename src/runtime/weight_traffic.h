// How many bytes of weights one decoded token reads: what its time is bound by.
#pragma once

#include <cstdint>

#include "runtime/executable.h"

namespace lamina {

// Counts every constant of the main graph as kernels read it: packed where it was packed, one row of a
// looked-up table, the chosen share of a mixture's experts.
uint64_t WeightBytesPerToken(const Executable& executable);

}  // namespace lamina
