#include "plan/node_demands.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "placement/apply_placement.h"
#include "placement/float_node_info.h"
#include "plan/planning_node_info.h"
#include "provider/provider.h"

namespace lamina {
namespace {

constexpr uint64_t kMaxPlanningConstantBytes = 64 * 1024;

// Whether a kernel cannot tell the two apart.
bool LookAlike(const PlacementDevice& a, const PlacementDevice& b) {
  const DeviceDescription& first = a.description;
  const DeviceDescription& second = b.description;
  return a.provider == b.provider && first.granularity_bytes == second.granularity_bytes &&
         first.multiprocessors == second.multiprocessors &&
         first.compute_capability_major == second.compute_capability_major &&
         first.compute_capability_minor == second.compute_capability_minor &&
         first.cudnn_version == second.cudnn_version && first.memory_bytes == second.memory_bytes;
}

bool AllShapesFixed(const NodeInfo& node) {
  const auto fixed = [](const ShapeBounds* shape) {
    if (!shape) return false;
    for (int axis = 0; axis < shape->rank(); ++axis) {
      if (!(*shape)[axis].exact()) return false;
    }
    return true;
  };
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.HasInput(i) && !fixed(node.input_bounds(i))) return false;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.HasOutput(i) && !fixed(node.output_bounds(i))) return false;
  }
  return true;
}

bool AllShapesBounded(const NodeInfo& node) {
  const auto bounded = [](const ShapeBounds* shape) { return shape && shape->bounded(); };
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.HasInput(i) && !bounded(node.input_bounds(i))) return false;
  }
  return true;
}

}  // namespace

const Tensor* PlanningNodeInfo::constant_input(int index) const {
  const ValueId id = Input(index);
  const Value* value = id.valid() ? constants_.Find(graph_, id) : nullptr;
  if (!value || !value->is_tensor()) return nullptr;
  const Tensor& constant = value->tensor();
  return constant.size_bytes() <= kMaxPlanningConstantBytes ? &constant : nullptr;
}

bool NodeDemand::ReadsOriginal(int input) const {
  return std::none_of(packed.begin(), packed.end(), [&](const PackedInput& weight) {
    return weight.input == input || (input < 32 && (weight.absorbed_inputs >> input & 1) != 0);
  });
}

uint64_t NodeDemand::LargestWorkspaceBytes() const {
  uint64_t largest_bytes = 0;
  for (const WorkspaceRequirements& of_phase : workspace) {
    largest_bytes = std::max<uint64_t>(largest_bytes, of_phase.total_bytes());
  }
  return largest_bytes;
}

NodeDemands::NodeDemands(const Graph& graph, std::span<const PlacementDevice> devices,
                         const ConstantValues& constants, std::span<const ValueSizes> sizes, bool prepack)
    : graph_(graph), devices_(devices), constants_(constants), sizes_(sizes), prepack_(prepack) {
  int32_t num_classes = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    size_t same = 0;
    while (same < i && !LookAlike(devices[same], devices[i])) ++same;
    class_of_device_.push_back(same < i ? class_of_device_[same] : num_classes++);
  }
  demands_.resize(static_cast<size_t>(num_classes));
  for (auto& of_class : demands_) of_class.resize(graph.nodes().size());
}

Result<const NodeDemand*> NodeDemands::Of(NodeId node, const NodePlacement& at) {
  const auto device_class = static_cast<size_t>(class_of_device_[static_cast<size_t>(at.device)]);
  std::unique_ptr<NodeDemand>& demand = demands_[device_class][static_cast<size_t>(node.index)];
  if (!demand) {
    Result<NodeDemand> asked = Ask(node, at);
    if (!asked.ok()) {
      const Node& named = graph_.node(node);
      return asked.status().WithContext(
          fmt::format("node '{}' ({})", named.name.view(), named.op_type.view()));
    }
    demand = std::make_unique<NodeDemand>(*std::move(asked));
  }
  return static_cast<const NodeDemand*>(demand.get());
}

Result<NodeDemand> NodeDemands::Ask(NodeId id, const NodePlacement& at) const {
  NodeDemand demand;
  demand.workspace.resize(sizes_.size());
  if (IsCopy(graph_.node(id))) {
    demand.source = EstimateSource::kDeclared;
    return demand;
  }
  if (!at.kernel || !at.kernel->create) {
    for (size_t phase = 0; phase < sizes_.size(); ++phase) {
      LAMINA_RETURN_IF_ERROR(AddReserve(id, phase, demand));
    }
    return demand;
  }
  const PlacementDevice& target = devices_[static_cast<size_t>(at.device)];
  std::unique_ptr<Kernel> made;
  bool fixed = true;
  bool bounded = true;
  for (size_t phase = 0; phase < sizes_.size(); ++phase) {
    const PlanningNodeInfo as_it_is(graph_, id, constants_, target.description, sizes_[phase]);
    const FloatNodeInfo in_float(as_it_is);
    const NodeInfo& info = at.with_casts ? static_cast<const NodeInfo&>(in_float) : as_it_is;
    if (!made) {
      LAMINA_ASSIGN_OR_RETURN(made, at.kernel->create(info));
      for (int input = 0; input < info.num_inputs(); ++input) {
        if (!info.is_constant_input(input) || !demand.ReadsOriginal(input)) continue;
        PrepackDeclaration declaration;
        LAMINA_RETURN_IF_ERROR(made->DeclarePrepack(info, input, declaration));
        if (!declaration.prepack || !(prepack_ || declaration.required)) continue;
        demand.packed.push_back(
            {input, declaration.packed_bytes, declaration.scratch_bytes, declaration.absorbed_inputs});
      }
    }
    WorkspaceRequirements& workspace = demand.workspace[phase];
    const Status status = made->DeclareWorkspaceRequirements(info, workspace);
    if (status.code() == StatusCode::kUnsupported) {
      LAMINA_RETURN_IF_ERROR(AddReserve(id, phase, demand));
    } else if (!status.ok()) {
      return status;
    }
    fixed = fixed && AllShapesFixed(info);
    bounded = bounded && AllShapesBounded(info);
  }
  if (demand.source != EstimateSource::kHeuristic) {
    demand.source = fixed     ? EstimateSource::kExact
                    : bounded ? EstimateSource::kBound
                              : EstimateSource::kDeclared;
  }
  return demand;
}

Status NodeDemands::AddReserve(NodeId id, size_t phase, NodeDemand& demand) const {
  demand.source = EstimateSource::kHeuristic;
  demand.workspace[phase] = WorkspaceRequirements();
  return demand.workspace[phase].Add(0, BaseBytes(id, sizes_[phase]) / 2);
}

uint64_t NodeDemands::BaseBytes(NodeId id, const ValueSizes& sizes) const {
  const Node& node = graph_.node(id);
  uint64_t bytes = 0;
  for (const ValueId output : node.outputs) {
    if (output.valid()) bytes += sizes.BytesOrZero(output);
  }
  std::set<ValueId> seen;
  for (const ValueId input : node.inputs) {
    if (!input.valid() || !seen.insert(input).second) continue;
    if (const Initializer* weight = graph_.ConstantOf(input)) bytes += weight->size_bytes();
  }
  return bytes;
}

}  // namespace lamina
