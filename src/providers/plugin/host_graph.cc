#include "providers/plugin/host_graph.h"

#include "base/error.h"

namespace lamina::plugin {
namespace {

LaminaStatus* GetNodes(const LaminaGraph* graph, const LaminaNode* const** nodes, size_t* count) noexcept {
  return Answer(
      "Graph_GetNodes",
      [&] {
        *nodes = graph->node_list.data();
        *count = graph->node_list.size();
        return Status();
      },
      graph, nodes, count);
}

LaminaStatus* GetInputNames(const LaminaGraph* graph, const char* const** names, size_t* count) noexcept {
  return Answer(
      "Graph_GetInputNames",
      [&] {
        *names = graph->input_list.data();
        *count = graph->input_list.size();
        return Status();
      },
      graph, names, count);
}

LaminaStatus* GetOutputNames(const LaminaGraph* graph, const char* const** names, size_t* count) noexcept {
  return Answer(
      "Graph_GetOutputNames",
      [&] {
        *names = graph->output_list.data();
        *count = graph->output_list.size();
        return Status();
      },
      graph, names, count);
}

Result<const LaminaNode*> OwnNode(const LaminaEpGraphSupportInfo& info, const LaminaNode* node) {
  if (const LaminaNode* own = info.graph.Own(node)) return own;
  return InvalidArgumentError("a node was named that is none of the graph's");
}

LaminaStatus* LookUpKernel(LaminaEpGraphSupportInfo* info, const LaminaNode* node,
                           const LaminaKernelDef** def) noexcept {
  return Answer(
      "EpGraphSupportInfo_LookUpKernel",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const LaminaNode* own, OwnNode(*info, node));
        const Result<const KernelCreateInfo*> kernel = info->kernels.Lookup(own->info);
        *def = kernel.ok() ? &info->looked_up.emplace_back(LaminaKernelDef{(*kernel)->def}) : nullptr;
        return Status();
      },
      info, node, def);
}

LaminaStatus* AddSingleNode(LaminaEpGraphSupportInfo* info, const LaminaNode* node) noexcept {
  return Answer(
      "EpGraphSupportInfo_AddSingleNode",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const LaminaNode* own, OwnNode(*info, node));
        const Result<const KernelCreateInfo*> kernel = info->kernels.Lookup(own->info);
        if (!kernel.ok()) return NotFoundError("{}", kernel.status().message());
        info->capability.nodes.push_back(own->id);
        return Status();
      },
      info, node);
}

LaminaStatus* AddNodesToFuse(LaminaEpGraphSupportInfo* info, const LaminaNode* const* nodes, size_t count,
                             const LaminaNodeFusionOptions*) noexcept {
  return Answer(
      "EpGraphSupportInfo_AddNodesToFuse",
      [&]() -> Status {
        if (count == 0) return InvalidArgumentError("a group to fuse without nodes");
        std::vector<NodeId> group;
        for (size_t i = 0; i < count; ++i) {
          LAMINA_ASSIGN_OR_RETURN(const LaminaNode* own, OwnNode(*info, nodes[i]));
          group.push_back(own->id);
        }
        info->capability.fused.push_back(std::move(group));
        return Status();
      },
      info, nodes);
}

LaminaStatus* RejectNode(LaminaEpGraphSupportInfo* info, const LaminaNode* node,
                         const char* reason) noexcept {
  return Answer(
      "EpGraphSupportInfo_RejectNode",
      [&]() -> Status {
        LAMINA_ASSIGN_OR_RETURN(const LaminaNode* own, OwnNode(*info, node));
        info->capability.refused.emplace_back(own->id, UnsupportedError("node '{}': {}", own->name, reason));
        return Status();
      },
      info, node, reason);
}

}  // namespace

void FillGraphApi(LaminaEpApi& api) {
  api.Graph_GetNodes = &GetNodes;
  api.Graph_GetInputNames = &GetInputNames;
  api.Graph_GetOutputNames = &GetOutputNames;
  api.EpGraphSupportInfo_LookUpKernel = &LookUpKernel;
  api.EpGraphSupportInfo_AddSingleNode = &AddSingleNode;
  api.EpGraphSupportInfo_AddNodesToFuse = &AddNodesToFuse;
  api.EpGraphSupportInfo_RejectNode = &RejectNode;
}

}  // namespace lamina::plugin

LaminaGraph::LaminaGraph(const lamina::Graph& source) : graph(source) {
  for (const lamina::ValueId id : graph.inputs()) input_names.push_back(graph.value(id).name.str());
  for (const lamina::ValueId id : graph.outputs()) output_names.push_back(graph.value(id).name.str());
  for (const std::string& name : input_names) input_list.push_back(name.c_str());
  for (const std::string& name : output_names) output_list.push_back(name.c_str());
}

void LaminaGraph::Add(const lamina::NodeInfo& info, const lamina::plugin::DeviceMap& devices,
                      lamina::NodeId id) {
  node_list.push_back(&nodes.emplace_back(info, devices, &graph, id));
}

const LaminaNode* LaminaGraph::Own(const LaminaNode* node) const {
  for (const LaminaNode* own : node_list) {
    if (own == node) return own;
  }
  return nullptr;
}
