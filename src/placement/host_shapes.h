// Nodes that compute shapes: small integer tensors that begin as the shape of something and end as what
// kernels read on the host (the shape of a Reshape, the bounds of a Slice). They run on the host, where they
// begin and end, whatever device the tensors they describe are on.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/graph.h"
#include "provider/kernel_registry.h"

namespace lamina {

// By node index: whether the node is one of them. `order`: alive nodes in topological order. `kernel_of`: the
// definition of the kernel on the device that would run the node otherwise, null for nodes that are not in
// question. `host_takes`: whether the CPU provider has a kernel for it.
std::vector<bool> FindHostShapeNodes(const Graph& graph, std::span<const NodeId> order,
                                     const std::function<const KernelDef*(NodeId)>& kernel_of,
                                     const std::function<bool(NodeId)>& host_takes);

}  // namespace lamina
