// Graphs as a plugin sees them, and its answers to GetCapability.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "lamina/lamina_ep.h"
#include "model/graph.h"
#include "provider/capability.h"
#include "provider/kernel_registry.h"
#include "providers/plugin/host_kernel_def.h"
#include "providers/plugin/host_node.h"

// Lives for one callback.
struct LaminaGraph {
  // Formal inputs and outputs of `graph`; nodes are added with Add, in topological order.
  explicit LaminaGraph(const lamina::Graph& graph);
  LaminaGraph(const LaminaGraph&) = delete;
  LaminaGraph& operator=(const LaminaGraph&) = delete;
  void Add(const lamina::NodeInfo& info, const lamina::plugin::DeviceMap& devices, lamina::NodeId id);
  // The node where it is one of this graph's, else null.
  const LaminaNode* Own(const LaminaNode* node) const;

  const lamina::Graph& graph;
  std::deque<LaminaNode> nodes;  // at addresses that stay
  std::vector<const LaminaNode*> node_list;
  std::vector<std::string> input_names, output_names;
  std::vector<const char*> input_list, output_list;
};

// What a provider says of the nodes of a graph.
struct LaminaEpGraphSupportInfo {
  LaminaEpGraphSupportInfo(const LaminaGraph& asked_graph, const lamina::KernelRegistry& provider_kernels)
      : graph(asked_graph), kernels(provider_kernels) {}

  const LaminaGraph& graph;
  const lamina::KernelRegistry& kernels;
  lamina::Capability capability;
  std::deque<LaminaKernelDef> looked_up;  // results of LookUpKernel
};

namespace lamina::plugin {

void FillGraphApi(LaminaEpApi& api);

}  // namespace lamina::plugin
