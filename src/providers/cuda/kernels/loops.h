// Loops over tensors of any rank, brought into the few levels that kernels take.
#pragma once

#include <array>
#include <initializer_list>

#include "lamina/status.h"
#include "lamina/types.h"
#include "providers/cuda/device/kernel_api.h"

namespace lamina::cuda {

// How far a step along each axis moves, in elements.
using AxisStrides = std::array<int64_t, Shape::kMaxRank>;

AxisStrides ContiguousStrides(const Shape& shape);
// Those of a tensor of shape `from` read as `to`: 0 along axes that repeat. REQUIRES: it broadcasts.
AxisStrides BroadcastStrides(const Shape& from, const Shape& to);

// The shape that both broadcast to; INVALID_ARGUMENT where there is none.
Result<Shape> BroadcastShape(const Shape& a, const Shape& b);

// Loops over `dims` with the strides of each operand; axes that are one for every operand become one loop,
// axes of one element none. UNSUPPORTED where more than StridedLoops::kMaxRank remain, or 2^31 elements or
// more.
Result<StridedLoops> MakeLoops(const Shape& dims, std::initializer_list<const AxisStrides*> operands);

}  // namespace lamina::cuda
