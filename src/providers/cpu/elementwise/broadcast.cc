#include "providers/cpu/elementwise/broadcast.h"

#include <algorithm>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

using Strides = std::array<int64_t, kMaxBroadcastOperands>;  // in bytes; 0 where the operand repeats

// Axes after merging, outermost first.
struct MergedAxes {
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::array<Strides, Shape::kMaxRank> strides{};
  int rank = 0;
};

MergedAxes MergeAxes(std::span<const BroadcastOperand> operands, const Shape& output_shape) {
  MergedAxes merged;
  Strides next_stride{};  // of each operand, were it not repeated on the axis
  for (size_t k = 0; k < operands.size(); ++k) next_stride[k] = operands[k].element_bytes;
  // From the last axis on; `merged` is reversed at the end.
  for (int axis = output_shape.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = output_shape[axis];
    if (extent == 1) continue;
    Strides strides{};
    for (size_t k = 0; k < operands.size(); ++k) {
      const Shape& shape = operands[k].shape;
      const int operand_axis = axis - (output_shape.rank() - shape.rank());
      const int64_t operand_extent = operand_axis < 0 ? 1 : shape[operand_axis];
      strides[k] = operand_extent == 1 ? 0 : next_stride[k];
      next_stride[k] *= operand_extent;
    }
    if (merged.rank > 0) {
      const auto inner = static_cast<size_t>(merged.rank - 1);
      bool continues = true;
      for (size_t k = 0; k < operands.size(); ++k) {
        continues &= strides[k] == merged.strides[inner][k] * merged.extents[inner];
      }
      if (continues) {
        merged.extents[inner] *= extent;
        continue;
      }
    }
    merged.extents[static_cast<size_t>(merged.rank)] = extent;
    merged.strides[static_cast<size_t>(merged.rank)] = strides;
    ++merged.rank;
  }
  if (merged.rank == 0) {
    merged.extents[0] = 1;
    merged.rank = 1;
  }
  std::reverse(merged.extents.begin(), merged.extents.begin() + merged.rank);
  std::reverse(merged.strides.begin(), merged.strides.begin() + merged.rank);
  return merged;
}

}  // namespace

Result<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int axis = 0; axis < rank; ++axis) {
    const int a_axis = axis - (rank - a.rank());
    const int b_axis = axis - (rank - b.rank());
    const int64_t x = a_axis < 0 ? 1 : a[a_axis];
    const int64_t y = b_axis < 0 ? 1 : b[b_axis];
    if (x != y && x != 1 && y != 1) {
      return InvalidArgumentError("shapes {} and {} cannot be broadcast together", a.ToString(),
                                  b.ToString());
    }
    out.Append(x == 1 ? y : x);
  }
  return out;
}

Result<Shape> AlignLegacyOperand(const Shape& a, const Shape& b, bool broadcast, int64_t axis,
                                 bool has_axis) {
  if (!broadcast) {
    if (a == b) return b;
    return InvalidArgumentError("shapes {} and {} differ and the attribute broadcast is 0", a.ToString(),
                                b.ToString());
  }
  const int64_t from = !has_axis ? a.rank() - b.rank() : (axis < 0 ? axis + a.rank() : axis);
  if (from < 0 || from + b.rank() > a.rank()) {
    return InvalidArgumentError("shape {} does not fit into {} at axis {}", b.ToString(), a.ToString(), axis);
  }
  Shape aligned = b;
  for (int64_t i = from + b.rank(); i < a.rank(); ++i) aligned.Append(1);
  return aligned;
}

void ForEachBroadcastRow(ThreadPool& threads, std::span<const BroadcastOperand> operands,
                         const Shape& output_shape, void* output, int64_t output_element_bytes, int64_t work,
                         FunctionRef<void(const BroadcastRow&)> row) {
  const int64_t total = output_shape.num_elements();
  if (total == 0) return;
  const MergedAxes axes = MergeAxes(operands, output_shape);
  const auto last = static_cast<size_t>(axes.rank - 1);
  const int64_t row_length = axes.extents[last];
  threads.ParallelFor(total, GrainOf(work), [&](int64_t begin, int64_t end, int) {
    int64_t position = begin % row_length;
    int64_t row_index = begin / row_length;
    BroadcastRow part;
    for (size_t k = 0; k < operands.size(); ++k) part.repeated[k] = axes.strides[last][k] == 0;
    for (int64_t done = begin; done < end; done += part.count, position = 0, ++row_index) {
      part.count = std::min(row_length - position, end - done);
      part.output = static_cast<std::byte*>(output) + done * output_element_bytes;
      Strides offsets{};
      for (size_t k = 0; k < operands.size(); ++k) offsets[k] = position * axes.strides[last][k];
      int64_t rest = row_index;
      for (size_t axis = last; axis-- > 0;) {
        const int64_t index = rest % axes.extents[axis];
        rest /= axes.extents[axis];
        for (size_t k = 0; k < operands.size(); ++k) offsets[k] += index * axes.strides[axis][k];
      }
      for (size_t k = 0; k < operands.size(); ++k) {
        part.inputs[k] = static_cast<const std::byte*>(operands[k].data) + offsets[k];
      }
      row(part);
    }
  });
}

}  // namespace lamina
