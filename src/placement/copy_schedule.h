// The copies of a run between devices, and who waits for them.
//
// Copies run beside the kernels, on streams of their own. A copy begins when its device has done what was put
// on its compute stream before. The first step that reads the result waits: the host itself, or the compute
// stream of the step's device. Because the copy may still be under way when its source is read for the last
// time by a kernel, the source stays alive until it is known to be done:
//   source on a device: through the step that waits for the copy; that device's compute stream then waits too
//   source on the host: until the host waits for something that the device made after it had the copy, or to
//                       the end of the run
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/graph.h"
#include "placement/apply_placement.h"

namespace lamina {

struct CopyTask {
  // Values of the frame. Equal for an input that the caller gives on the host and that lies on a device.
  int32_t source = -1;
  int32_t destination = -1;
  int32_t from = -1;  // devices
  int32_t to = -1;
};

struct CopySchedule {
  std::vector<CopyTask> copies;
  // The first of them bring inputs; the others are steps of the graph.
  size_t num_uploads = 0;
  std::vector<int32_t> copy_of_step;        // by step; -1 for kernels
  std::vector<std::vector<int32_t>> waits;  // by step: copies whose result it is the first to read
  // By value: no memory of it is given to others before this step is over; number of steps: to the end.
  std::vector<int64_t> live_until;
};

// `order`: of execution, with copy nodes. Empty vectors where everything is on the host.
CopySchedule ScheduleCopies(const Graph& graph, std::span<const NodeId> order, const PlacedGraph& placed,
                            int32_t host);

}  // namespace lamina
