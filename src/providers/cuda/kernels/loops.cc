#include "providers/cuda/kernels/loops.h"

#include <algorithm>

#include "base/error.h"

namespace lamina::cuda {

AxisStrides ContiguousStrides(const Shape& shape) {
  AxisStrides strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

AxisStrides BroadcastStrides(const Shape& from, const Shape& to) {
  const AxisStrides contiguous = ContiguousStrides(from);
  AxisStrides strides{};
  const int missing = to.rank() - from.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] != 1) {
      strides[static_cast<size_t>(axis + missing)] = contiguous[static_cast<size_t>(axis)];
    }
  }
  return strides;
}

Result<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank());
    const int in_b = axis - (rank - b.rank());
    const int64_t of_a = in_a < 0 ? 1 : a[in_a];
    const int64_t of_b = in_b < 0 ? 1 : b[in_b];
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      return InvalidArgumentError("shapes {} and {} do not broadcast", a.ToString(), b.ToString());
    }
    shape.Append(of_a == 1 ? of_b : of_a);
  }
  return shape;
}

Result<StridedLoops> MakeLoops(const Shape& dims, std::initializer_list<const AxisStrides*> operands) {
  constexpr int64_t kMaxCount = int64_t{1} << 31;
  if (dims.num_elements() >= kMaxCount) {
    return UnsupportedError("{} elements: fewer than 2^31 are supported", dims.num_elements());
  }
  StridedLoops loops;
  loops.count = static_cast<uint32_t>(dims.num_elements());
  if (loops.count == 0) return loops;
  const auto stride_of = [](const AxisStrides* operand, int axis) {
    return (*operand)[static_cast<size_t>(axis)];
  };
  for (int axis = 0; axis < dims.rank(); ++axis) {
    const int64_t dim = dims[axis];
    if (dim == 1) continue;
    const int last = loops.rank - 1;
    bool continues = loops.rank > 0;
    int operand_index = 0;
    for (const AxisStrides* operand : operands) {
      continues = continues && loops.strides[operand_index++][last] == stride_of(operand, axis) * dim;
    }
    if (!continues && loops.rank == StridedLoops::kMaxRank) {
      return UnsupportedError("a layout of more than {} separate axes: {}", StridedLoops::kMaxRank,
                              dims.ToString());
    }
    const int level = continues ? last : loops.rank++;
    loops.dims[level] = static_cast<uint32_t>(continues ? loops.dims[level] * dim : dim);
    operand_index = 0;
    for (const AxisStrides* operand : operands) {
      loops.strides[operand_index++][level] = stride_of(operand, axis);
    }
  }
  return loops;
}

}  // namespace lamina::cuda
