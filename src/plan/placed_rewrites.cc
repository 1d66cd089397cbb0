#include "plan/placed_rewrites.h"

#include <vector>

#include "base/error.h"
#include "provider/provider.h"
#include "rewrite/rewriter.h"

namespace lamina {
namespace {

class PlacementAssignment : public NodeAssignment {
 public:
  PlacementAssignment(const Graph& graph, std::span<const PlacementDevice> devices, Placement& placement)
      : graph_(graph), devices_(devices), placement_(placement) {}

  std::string_view ProviderOf(const Graph& graph, NodeId node) const override {
    // Nodes with subgraphs run on the host, with all that is in them.
    if (&graph != &graph_) return devices_.back().provider->name();
    const NodePlacement& place = placement_.nodes[static_cast<size_t>(node.index)];
    if (place.device == NodePlacement::kNone || place.with_casts ||
        place.fused_group != NodePlacement::kNone) {
      return {};
    }
    return devices_[static_cast<size_t>(place.device)].provider->name();
  }

  void Inherit(const Graph& graph, NodeId made, NodeId original) override {
    if (&graph != &graph_) return;
    placement_.nodes.resize(graph.nodes().size());
    NodePlacement place = placement_.nodes[static_cast<size_t>(original.index)];
    place.kernel = nullptr;
    placement_.nodes[static_cast<size_t>(made.index)] = place;
    made_.push_back(made);
  }

  const std::vector<NodeId>& made() const { return made_; }

 private:
  const Graph& graph_;
  std::span<const PlacementDevice> devices_;
  Placement& placement_;
  std::vector<NodeId> made_;
};

}  // namespace

Result<bool> RewritePlacedNodes(const PlacedRewriteRequest& request, Placement& placement) {
  const Graph& graph = *request.model->graph;
  PlacementAssignment assignment(graph, request.devices, placement);
  RewriteOptions options;
  options.disabled = request.disabled;
  LAMINA_ASSIGN_OR_RETURN(const RewriteReport report,
                          ApplyLevel2Rewrites(*request.model, assignment, options));
  if (report.total() == 0) return false;
  if (request.on_rewritten) LAMINA_RETURN_IF_ERROR(request.on_rewritten());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!graph.nodes()[i].alive) placement.nodes[i] = NodePlacement();
  }
  for (const NodeId id : assignment.made()) {
    if (!graph.node(id).alive) continue;
    NodePlacement& place = placement.nodes[static_cast<size_t>(id.index)];
    const PlacementDevice& device = request.devices[static_cast<size_t>(place.device)];
    const GraphNodeInfo info(graph, id, *request.constants, device.description, request.bounds);
    const Result<const KernelCreateInfo*> kernel = device.provider->kernel_registry().Lookup(info);
    if (!kernel.ok()) {
      return InternalError("a level-2 rewrite made node '{}', which does not run on {}: {}",
                           graph.node(id).name.str(), device.description.device.ToString(),
                           kernel.status().message());
    }
    place.kernel = *kernel;
  }
  return true;
}

}  // namespace lamina
