// Taking tensors apart along an axis for the trips of a loop, and putting the results of trips together.
#pragma once

#include <vector>

#include "providers/cpu/kernel_util.h"

namespace lamina {

// Slice `index` of the axis, which goes; a copy.
Result<Tensor> SliceAlong(KernelContext& context, const Tensor& tensor, int axis, int64_t index);

struct ScanDirection {
  int64_t axis = 0;        // of the output that counts the trips
  bool backwards = false;  // the last trip comes first
};

// Output `index` from one tensor for each trip. Without trips it has `empty_shape`.
Status StackScanOutput(KernelContext& context, int index, const std::vector<Value>& trips,
                       const ScanDirection& direction, const Shape& empty_shape);

// Trips [steps, ...], those missing zero. REQUIRES: at most `steps` trips.
Result<Tensor> StackPadded(KernelContext& context, const std::vector<Value>& trips, int64_t steps);

// For each output the shape it has without trips: 0, then the dimensions known at load (else 0).
std::vector<Shape> EmptyScanShapes(const NodeInfo& node);

}  // namespace lamina
