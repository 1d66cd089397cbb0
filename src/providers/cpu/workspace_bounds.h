// Sizes for workspace functions: the largest shapes that a node's bounds admit.
#pragma once

#include "lamina/status.h"
#include "lamina/types.h"
#include "provider/node_info.h"

namespace lamina {

// The shape of the upper bounds of an input or output. UNSUPPORTED naming node and index where its rank is
// unknown or a dimension has no bound.
Result<Shape> LargestInputShape(const NodeInfo& node, int input);
Result<Shape> LargestOutputShape(const NodeInfo& node, int output);

// Elements of the largest shape; UNSUPPORTED also where their number times 8 bytes overflows.
Result<int64_t> LargestInputElements(const NodeInfo& node, int input);
Result<int64_t> LargestOutputElements(const NodeInfo& node, int output);

// How many scratch areas a kernel with one for each worker needs: the threads of the device where they are
// described (DeviceDescription::multiprocessors of a CPU), else the cores this process may use. Kernels split
// their work over that many lanes at most, whatever the number of threads.
int WorkerLanes(const NodeInfo& node);

}  // namespace lamina
