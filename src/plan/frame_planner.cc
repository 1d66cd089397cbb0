#include "plan/frame_planner.h"

#include <algorithm>
#include <unordered_map>

#include "model/value_size.h"

namespace lamina {
namespace {

constexpr int64_t kAlignment = kWorkspaceAlignment;

class FramePlanner {
 public:
  explicit FramePlanner(const FramePlanRequest& request) : request_(request), graph_(*request.graph) {
    const size_t num_values = graph_.values().size();
    plan_.offsets.assign(num_values, FramePlan::kNotPlanned);
    plan_.sizes_bytes.assign(num_values, 0);
    plan_.takes_over.assign(num_values, -1);
    last_read_.assign(num_values, -1);
  }

  Result<FramePlan> Plan() {
    FindLastReads();
    for (const ValueId id : graph_.inputs()) {
      if (!request_.outside(id)) LAMINA_RETURN_IF_ERROR(AddInput(id));
    }
    for (size_t step = 0; step < request_.order.size(); ++step) {
      const Node& node = graph_.node(request_.order[step]);
      for (size_t output = 0; output < node.outputs.size(); ++output) {
        const ValueId id = node.outputs[output];
        if (!id.valid() || request_.outside(id)) continue;
        LAMINA_RETURN_IF_ERROR(AddValue(id, static_cast<int>(output), node, static_cast<int64_t>(step)));
      }
    }
    LAMINA_RETURN_IF_ERROR(AddWorkspace());
    LAMINA_ASSIGN_OR_RETURN(const OffsetPlan layout, PlanOffsets(intervals_, request_.planner));
    for (const auto& [value, interval] : interval_of_value_) {
      plan_.offsets[static_cast<size_t>(value)] = layout.offsets[interval];
    }
    std::vector<int64_t> slot_offsets;
    for (const size_t interval : interval_of_slot_) slot_offsets.push_back(layout.offsets[interval]);
    LAMINA_ASSIGN_OR_RETURN(plan_.workspace, WorkspacePattern::FromOffsets(slots_, slot_offsets));
    plan_.peak_bytes = layout.peak_bytes;
    plan_.lower_bound_bytes = layout.lower_bound_bytes;
    return std::move(plan_);
  }

 private:
  void FindLastReads() {
    std::unordered_map<int32_t, int64_t> step_of_node;
    for (size_t step = 0; step < request_.order.size(); ++step) {
      step_of_node[request_.order[step].index] = static_cast<int64_t>(step);
    }
    for (size_t value = 0; value < graph_.values().size(); ++value) {
      for (const Use& use : graph_.values()[value].uses) {
        const auto step = step_of_node.find(use.node.index);
        if (step != step_of_node.end()) last_read_[value] = std::max(last_read_[value], step->second);
      }
      if (value < request_.live_until.size()) {
        last_read_[value] = std::max(last_read_[value], request_.live_until[value]);
      }
    }
  }

  Status AddInput(ValueId id) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t largest_bytes, LargestBytes(graph_, id, request_.bounds));
    const auto value = static_cast<size_t>(id.index);
    plan_.sizes_bytes[value] = static_cast<int64_t>(largest_bytes);
    Interval interval;
    interval.size_bytes = plan_.sizes_bytes[value];
    interval.alignment = kAlignment;
    interval.lower = 0;
    interval.upper = std::max<int64_t>(last_read_[value], 0) + 1;
    interval_of_value_[id.index] = intervals_.size();
    intervals_.push_back(std::move(interval));
    return Status();
  }

  Status AddValue(ValueId id, int output, const Node& node, int64_t step) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t largest_bytes, LargestBytes(graph_, id, request_.bounds));
    const auto size_bytes = static_cast<int64_t>(largest_bytes);
    const auto value = static_cast<size_t>(id.index);
    plan_.sizes_bytes[value] = size_bytes;
    Interval interval;
    interval.size_bytes = size_bytes;
    interval.alignment = kAlignment;
    interval.lower = step;
    interval.upper = std::max(last_read_[value], step) + 1;
    const int32_t source = SourceOf(id, output, node, step);
    if (source >= 0) {
      plan_.takes_over[value] = source;
      const size_t shared = interval_of_value_.at(source);
      if (intervals_[shared].alias_group < 0) {
        intervals_[shared].alias_group = static_cast<int64_t>(group_members_.size());
        group_members_.push_back({shared});
      }
      interval.alias_group = intervals_[shared].alias_group;
      group_members_[static_cast<size_t>(interval.alias_group)].push_back(intervals_.size());
    }
    interval_of_value_[id.index] = intervals_.size();
    intervals_.push_back(std::move(interval));
    return Status();
  }

  // The input whose memory the output may take: an alias always, an overwritten input where it is read last
  // here.
  int32_t SourceOf(ValueId id, int output, const Node& node, int64_t step) const {
    const KernelDef& definition = request_.definition(request_.order[static_cast<size_t>(step)]);
    const auto shares = [&](int input, bool dies) {
      if (input < 0 || input >= static_cast<int>(node.inputs.size())) return false;
      const ValueId source = node.inputs[static_cast<size_t>(input)];
      if (!source.valid() || !interval_of_value_.count(source.index)) return false;
      if (!SameSize(source, id)) return false;
      if (!dies) return true;
      // Nothing may read the memory later, under this name or another of its group, or twice in this step.
      return last_read_[static_cast<size_t>(source.index)] == step && !IsSharedLater(source, step) &&
             std::count(node.inputs.begin(), node.inputs.end(), source) == 1;
    };
    const int alias = definition.alias_of(output);
    if (shares(alias, /*dies=*/false)) return node.inputs[static_cast<size_t>(alias)].index;
    for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
      if (definition.may_overwrite(input, output) && shares(input, /*dies=*/true)) {
        return node.inputs[static_cast<size_t>(input)].index;
      }
    }
    return -1;
  }

  // Equal for every binding: the same bytes per element and the same number of elements.
  bool SameSize(ValueId a, ValueId b) const {
    const ValueInfo& first = graph_.value(a);
    const ValueInfo& second = graph_.value(b);
    return DataTypeBits(first.type.element) == DataTypeBits(second.type.element) && first.shape &&
           second.shape && first.shape->num_elements() == second.shape->num_elements();
  }

  // Whether another value in the memory of `source` is still read after `step`, or in it.
  bool IsSharedLater(ValueId source, int64_t step) const {
    const size_t own = interval_of_value_.at(source.index);
    const int64_t group = intervals_[own].alias_group;
    if (group < 0) return false;
    const std::vector<size_t>& members = group_members_[static_cast<size_t>(group)];
    return std::any_of(members.begin(), members.end(),
                       [&](size_t member) { return member != own && intervals_[member].upper > step; });
  }

  Status AddWorkspace() {
    for (size_t step = 0; step < request_.order.size(); ++step) {
      const NodeId id = request_.order[step];
      WorkspaceRequirements requirements;
      LAMINA_RETURN_IF_ERROR(request_.workspace(id, requirements));
      for (const WorkspaceRequirement& slot : requirements.slots()) {
        const auto now = static_cast<int64_t>(step);
        slots_.push_back({id.index, slot.slot_id, static_cast<int64_t>(slot.size_bytes), now});
        interval_of_slot_.push_back(intervals_.size());
        Interval interval;
        interval.size_bytes = static_cast<int64_t>(slot.size_bytes);
        interval.alignment = kAlignment;
        interval.lower = now;
        interval.upper = now + 1;
        intervals_.push_back(std::move(interval));
      }
    }
    return Status();
  }

  const FramePlanRequest& request_;
  const Graph& graph_;
  FramePlan plan_;
  std::vector<int64_t> last_read_;  // by value: the last step that reads it, -1: none
  std::vector<Interval> intervals_;
  std::unordered_map<int32_t, size_t> interval_of_value_;
  std::vector<WorkspaceSlot> slots_;
  std::vector<size_t> interval_of_slot_;
  std::vector<std::vector<size_t>> group_members_;  // intervals by alias group
};

}  // namespace

Result<FramePlan> PlanFrame(const FramePlanRequest& request) { return FramePlanner(request).Plan(); }

}  // namespace lamina
