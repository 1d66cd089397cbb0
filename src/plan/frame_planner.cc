#include "plan/frame_planner.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {
namespace {

constexpr int64_t kAlignment = kWorkspaceAlignment;
constexpr int32_t kNone = -1;

int64_t Footprint(int64_t size_bytes) { return (size_bytes + kAlignment - 1) / kAlignment * kAlignment; }

// First finds the buffers of the frame and their lifetimes, then lays them out.
class FramePlanner {
 public:
  explicit FramePlanner(const FramePlanRequest& request) : request_(request), graph_(*request.graph) {
    const size_t num_values = graph_.values().size();
    takes_over_.assign(num_values, kNone);
    buffer_of_value_.assign(num_values, kNone);
    step_of_node_.assign(graph_.nodes().size(), kNone);
  }

  Status FindBuffers() {
    SetOrder(request_.order);
    for (const ValueId input : graph_.inputs()) {
      const bool is_constant = graph_.value(input).initializer.valid() && !graph_.value(input).is_graph_input;
      if (is_constant || request_.outside(input)) continue;
      LAMINA_RETURN_IF_ERROR(IsHome(input) ? AddInput(input) : AddCopy(input, 0));
    }
    return AddNodes();
  }

  // Those of these nodes alone; what others made before and these read is there from the first of them.
  Status FindBuffersOf(std::span<const NodeId> nodes) {
    for (const FrameBuffer& buffer : buffers_) {
      if (buffer.value < 0) continue;
      buffer_of_value_[static_cast<size_t>(buffer.value)] = kNone;
      takes_over_[static_cast<size_t>(buffer.value)] = kNone;
    }
    for (const NodeId id : order_) step_of_node_[static_cast<size_t>(id.index)] = kNone;
    buffers_.clear();
    group_members_.clear();
    if (position_of_node_.empty()) {
      position_of_node_.assign(graph_.nodes().size(), kNone);
      for (size_t i = 0; i < request_.order.size(); ++i) {
        position_of_node_[static_cast<size_t>(request_.order[i].index)] = static_cast<int32_t>(i);
      }
    }
    window_.assign(nodes.begin(), nodes.end());
    SetOrder(window_);
    for (int64_t step = 0; step < num_steps_; ++step) {
      const NodeId id = order_[static_cast<size_t>(step)];
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      for (size_t input = 0; input < inputs.size(); ++input) {
        LAMINA_RETURN_IF_ERROR(AddRead(inputs[input], {id, static_cast<int>(input)}, step));
      }
    }
    return AddNodes();
  }

  FrameShares Shares() const {
    std::vector<FrameShares> change(static_cast<size_t>(num_steps_) + 1);
    const auto add = [&](int64_t step, FrameBuffer::Kind kind, int64_t bytes) {
      FrameShares& at = change[static_cast<size_t>(step)];
      (kind == FrameBuffer::Kind::kValue  ? at.values_bytes
       : kind == FrameBuffer::Kind::kCopy ? at.copies_bytes
                                          : at.workspace_bytes) += bytes;
    };
    for (const FrameBuffer& buffer : buffers_) {
      if (buffer.alias_group >= 0) continue;
      add(buffer.lower, buffer.kind, Footprint(buffer.size_bytes));
      add(buffer.upper, buffer.kind, -Footprint(buffer.size_bytes));
    }
    AddGroups(add);
    FrameShares now;
    FrameShares fullest;
    for (const FrameShares& at : change) {
      now.values_bytes += at.values_bytes;
      now.copies_bytes += at.copies_bytes;
      now.workspace_bytes += at.workspace_bytes;
      if (now.total_bytes() > fullest.total_bytes()) fullest = now;
    }
    return fullest;
  }

  Result<FramePlan> LayOut() {
    std::vector<Interval> intervals(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      intervals[i].size_bytes = buffers_[i].size_bytes;
      intervals[i].alignment = kAlignment;
      intervals[i].lower = buffers_[i].lower;
      intervals[i].upper = buffers_[i].upper;
      intervals[i].alias_group = buffers_[i].alias_group;
    }
    LAMINA_ASSIGN_OR_RETURN(const OffsetPlan layout, PlanOffsets(intervals, request_.planner));
    FramePlan plan;
    plan.offsets.assign(graph_.values().size(), FramePlan::kNotPlanned);
    plan.sizes_bytes.assign(graph_.values().size(), 0);
    std::vector<WorkspaceSlot> slots;
    std::vector<int64_t> slot_offsets;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      FrameBuffer& buffer = buffers_[i];
      buffer.offset_bytes = layout.offsets[i];
      if (buffer.kind == FrameBuffer::Kind::kWorkspace) {
        slots.push_back({buffer.node, buffer.slot_id, buffer.size_bytes, buffer.lower});
        slot_offsets.push_back(buffer.offset_bytes);
      } else {
        plan.offsets[static_cast<size_t>(buffer.value)] = buffer.offset_bytes;
        plan.sizes_bytes[static_cast<size_t>(buffer.value)] = buffer.size_bytes;
      }
    }
    LAMINA_ASSIGN_OR_RETURN(plan.workspace, WorkspacePattern::FromOffsets(slots, slot_offsets));
    plan.peak_bytes = layout.peak_bytes;
    plan.lower_bound_bytes = layout.lower_bound_bytes;
    plan.shares = Shares();
    plan.takes_over = std::move(takes_over_);
    plan.buffers = std::move(buffers_);
    return plan;
  }

 private:
  bool RunsHere(NodeId id) const { return !request_.runs_here || request_.runs_here(id); }
  bool IsHome(ValueId id) const { return !request_.is_home || request_.is_home(id); }
  bool ReadsHere(ValueId id, const Use& use) const {
    return request_.reads_here ? request_.reads_here(id, use) : IsHome(id);
  }

  void SetOrder(std::span<const NodeId> order) {
    order_ = order;
    num_steps_ = static_cast<int64_t>(order.size());
    for (size_t step = 0; step < order.size(); ++step) {
      step_of_node_[static_cast<size_t>(order[step].index)] = static_cast<int32_t>(step);
    }
  }

  Status AddNodes() {
    for (int64_t step = 0; step < num_steps_; ++step) {
      const NodeId id = order_[static_cast<size_t>(step)];
      const Node& node = graph_.node(id);
      for (size_t output = 0; output < node.outputs.size(); ++output) {
        const ValueId value = node.outputs[output];
        if (!value.valid() || request_.outside(value)) continue;
        if (IsHome(value)) {
          LAMINA_RETURN_IF_ERROR(AddValue(value, static_cast<int>(output), id, step));
        } else {
          LAMINA_RETURN_IF_ERROR(AddCopy(value, step));
        }
      }
      if (RunsHere(id)) LAMINA_RETURN_IF_ERROR(AddWorkspace(id, step));
    }
    return Status();
  }

  // A value that a node outside the order makes.
  Status AddRead(ValueId id, const Use& use, int64_t step) {
    if (!id.valid()) return Status();
    const ValueInfo& value = graph_.value(id);
    const bool is_constant = value.initializer.valid() && !value.is_graph_input;
    const bool is_made_here = value.producer.valid() && StepOf(value.producer) != kNone;
    if (is_constant || is_made_here || request_.outside(id) || !ReadsHere(id, use)) return Status();
    if (buffer_of_value_[static_cast<size_t>(id.index)] != kNone) {
      BufferOf(id.index).upper = step + 1;
      return Status();
    }
    LAMINA_ASSIGN_OR_RETURN(const std::optional<int64_t> size_bytes, SizeOf(id));
    if (!size_bytes) return Status();
    FrameBuffer buffer;
    buffer.kind = FrameBuffer::Kind::kCopy;
    buffer.size_bytes = *size_bytes;
    // Made between these nodes, as experts between the nodes of their layer: there when it is read first.
    const auto position_of = [&](NodeId node) { return position_of_node_[static_cast<size_t>(node.index)]; };
    const bool is_made_between =
        value.producer.valid() && position_of(value.producer) > position_of(order_.front());
    buffer.lower = is_made_between ? step : 0;
    buffer.upper = step + 1;
    AddBuffer(id, buffer);
    return Status();
  }

  int64_t StepOf(NodeId id) const { return step_of_node_[static_cast<size_t>(id.index)]; }

  // One past the last step in which a value that is made in `step` is needed: by readers in this memory, and
  // by copies to others, each of which is done when the first node there reads it.
  int64_t UpperFor(ValueId id, int64_t step) const {
    int64_t last = step;
    int64_t first_elsewhere = num_steps_;
    bool elsewhere = false;
    for (const Use& use : graph_.value(id).uses) {
      const int64_t at = StepOf(use.node);
      if (at == kNone) continue;
      if (ReadsHere(id, use)) {
        last = std::max(last, at);
      } else {
        elsewhere = true;
        first_elsewhere = std::min(first_elsewhere, at);
      }
    }
    if (elsewhere) last = std::max(last, first_elsewhere);
    const auto index = static_cast<size_t>(id.index);
    if (index < request_.live_until.size()) last = std::max(last, request_.live_until[index]);
    return std::min(last + 1, std::max(num_steps_, step + 1));
  }

  // The last step that reads it in this device's memory, or kNone.
  int64_t LastReadHere(ValueId id) const {
    int64_t last = kNone;
    for (const Use& use : graph_.value(id).uses) {
      if (ReadsHere(id, use)) last = std::max(last, StepOf(use.node));
    }
    return last;
  }

  // The size, or nothing where the value gets no place.
  Result<std::optional<int64_t>> SizeOf(ValueId id) const {
    if (request_.skip_unbounded && !request_.sizes->IsBounded(id)) return std::optional<int64_t>();
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, request_.sizes->Bytes(id));
    return std::optional<int64_t>(static_cast<int64_t>(bytes));
  }

  void AddBuffer(ValueId id, FrameBuffer buffer) {
    buffer.value = id.index;
    buffer_of_value_[static_cast<size_t>(id.index)] = static_cast<int32_t>(buffers_.size());
    buffers_.push_back(buffer);
  }

  // An input of the graph in the device's memory: whoever runs the graph copies it there.
  Status AddInput(ValueId id) {
    LAMINA_ASSIGN_OR_RETURN(const std::optional<int64_t> size_bytes, SizeOf(id));
    if (!size_bytes) return Status();
    FrameBuffer buffer;
    buffer.kind = FrameBuffer::Kind::kCopy;
    buffer.size_bytes = *size_bytes;
    buffer.upper = UpperFor(id, 0);
    AddBuffer(id, buffer);
    return Status();
  }

  Status AddValue(ValueId id, int output, NodeId node, int64_t step) {
    LAMINA_ASSIGN_OR_RETURN(const std::optional<int64_t> size_bytes, SizeOf(id));
    if (!size_bytes) return Status();
    FrameBuffer buffer;
    buffer.size_bytes = *size_bytes;
    buffer.lower = step;
    if (request_.is_copy && request_.is_copy(node)) buffer.kind = FrameBuffer::Kind::kCopy;
    buffer.upper = UpperFor(id, step);
    if (const int32_t source = SourceOf(id, output, node, step); source != kNone) {
      takes_over_[static_cast<size_t>(id.index)] = source;
      FrameBuffer& shared = BufferOf(source);
      if (shared.alias_group < 0) {
        shared.alias_group = static_cast<int64_t>(group_members_.size());
        group_members_.push_back({buffer_of_value_[static_cast<size_t>(source)]});
      }
      buffer.alias_group = shared.alias_group;
      group_members_[static_cast<size_t>(buffer.alias_group)].push_back(
          static_cast<int32_t>(buffers_.size()));
    }
    AddBuffer(id, buffer);
    return Status();
  }

  Status AddCopy(ValueId id, int64_t step) {
    if (!request_.reads_here) return Status();
    const int64_t last = LastReadHere(id);
    if (last == kNone) return Status();
    LAMINA_ASSIGN_OR_RETURN(const std::optional<int64_t> size_bytes, SizeOf(id));
    if (!size_bytes) return Status();
    FrameBuffer buffer;
    buffer.kind = FrameBuffer::Kind::kCopy;
    buffer.size_bytes = *size_bytes;
    buffer.lower = step;
    buffer.upper = std::max(last, step) + 1;
    AddBuffer(id, buffer);
    return Status();
  }

  Status AddWorkspace(NodeId id, int64_t step) {
    WorkspaceRequirements requirements;
    LAMINA_RETURN_IF_ERROR(request_.workspace(id, requirements));
    const bool is_reserve = request_.has_reserve && request_.has_reserve(id);
    for (const WorkspaceRequirement& slot : requirements.slots()) {
      FrameBuffer buffer;
      buffer.kind = FrameBuffer::Kind::kWorkspace;
      buffer.node = id.index;
      buffer.slot_id = is_reserve ? kReserveSlot : slot.slot_id;
      buffer.size_bytes = static_cast<int64_t>(slot.size_bytes);
      buffer.lower = step;
      buffer.upper = step + 1;
      buffers_.push_back(buffer);
    }
    return Status();
  }

  FrameBuffer& BufferOf(int32_t value) {
    return buffers_[static_cast<size_t>(buffer_of_value_[static_cast<size_t>(value)])];
  }

  // The input whose memory the output may take: an alias always, an overwritten input where it is read last
  // here.
  int32_t SourceOf(ValueId id, int output, NodeId node_id, int64_t step) const {
    if (!RunsHere(node_id)) return kNone;  // made by a node of another device in this one's memory
    const Node& node = graph_.node(node_id);
    const KernelDef& definition = request_.definition(node_id);
    const auto shares = [&](int input, bool dies) {
      if (input < 0 || input >= static_cast<int>(node.inputs.size())) return false;
      const ValueId source = node.inputs[static_cast<size_t>(input)];
      if (!source.valid() || buffer_of_value_[static_cast<size_t>(source.index)] == kNone) return false;
      if (!ReadsHere(source, {node_id, input})) return false;
      if (!SameSize(source, id)) return false;
      if (!dies) return true;
      // Nothing may read the memory later, under this name or another of its group, or twice in this step.
      return UpperOf(source) == step + 1 && !OutlivesSteps(source) && !IsSharedLater(source, step) &&
             std::count(node.inputs.begin(), node.inputs.end(), source) == 1;
    };
    const int alias = definition.alias_of(output);
    if (shares(alias, /*dies=*/false)) return node.inputs[static_cast<size_t>(alias)].index;
    for (const auto& [input, overwriting] : definition.inplace_pairs()) {
      if (overwriting == output && shares(input, /*dies=*/true)) {
        return node.inputs[static_cast<size_t>(input)].index;
      }
    }
    return kNone;
  }

  int64_t UpperOf(ValueId id) const {
    return buffers_[static_cast<size_t>(buffer_of_value_[static_cast<size_t>(id.index)])].upper;
  }

  // Whether it is still needed after the last step, as what the caller fetches is.
  bool OutlivesSteps(ValueId id) const {
    const auto index = static_cast<size_t>(id.index);
    return index < request_.live_until.size() && request_.live_until[index] >= num_steps_;
  }

  // Equal for every binding: the same bytes per element and the same number of elements.
  bool SameSize(ValueId a, ValueId b) const {
    const ValueInfo& first = graph_.value(a);
    const ValueInfo& second = graph_.value(b);
    if (DataTypeBits(first.type.element) != DataTypeBits(second.type.element)) return false;
    if (!first.shape || !second.shape) return false;
    return *first.shape == *second.shape || first.shape->num_elements() == second.shape->num_elements();
  }

  // Whether another value in the memory of `source` is still read after `step`, or in it.
  bool IsSharedLater(ValueId source, int64_t step) const {
    const int32_t own = buffer_of_value_[static_cast<size_t>(source.index)];
    const int64_t group = buffers_[static_cast<size_t>(own)].alias_group;
    if (group < 0) return false;
    const std::vector<int32_t>& members = group_members_[static_cast<size_t>(group)];
    return std::any_of(members.begin(), members.end(), [&](int32_t member) {
      return member != own && buffers_[static_cast<size_t>(member)].upper > step;
    });
  }

  // At each step a group counts as its largest live member.
  template <typename Add>
  void AddGroups(const Add& add) const {
    std::vector<int64_t> largest(static_cast<size_t>(num_steps_), 0);
    for (const std::vector<int32_t>& members : group_members_) {
      for (const int32_t member : members) {
        const FrameBuffer& buffer = buffers_[static_cast<size_t>(member)];
        for (int64_t step = buffer.lower; step < buffer.upper; ++step) {
          int64_t& at = largest[static_cast<size_t>(step)];
          const int64_t bytes = Footprint(buffer.size_bytes);
          if (bytes <= at) continue;
          add(step, buffer.kind, bytes - at);
          add(step + 1, buffer.kind, at - bytes);
          at = bytes;
        }
      }
      for (const int32_t member : members) {
        const FrameBuffer& buffer = buffers_[static_cast<size_t>(member)];
        std::fill(largest.begin() + buffer.lower, largest.begin() + buffer.upper, 0);
      }
    }
  }

  const FramePlanRequest& request_;
  const Graph& graph_;
  std::span<const NodeId> order_;
  std::vector<NodeId> window_;             // of FindBuffersOf
  std::vector<int32_t> position_of_node_;  // in the whole order; empty before FindBuffersOf
  int64_t num_steps_ = 0;
  std::vector<int32_t> takes_over_;
  std::vector<int32_t> step_of_node_;     // kNone: not in the order
  std::vector<int32_t> buffer_of_value_;  // kNone: no place in the frame
  std::vector<FrameBuffer> buffers_;
  std::vector<std::vector<int32_t>> group_members_;  // buffers by alias group
};

}  // namespace

Result<FramePlan> PlanFrame(const FramePlanRequest& request) {
  FramePlanner planner(request);
  LAMINA_RETURN_IF_ERROR(planner.FindBuffers());
  return planner.LayOut();
}

Result<FrameShares> FrameLowerBound(const FramePlanRequest& request) {
  FramePlanner planner(request);
  LAMINA_RETURN_IF_ERROR(planner.FindBuffers());
  return planner.Shares();
}

class FrameFloor::Implementation {
 public:
  explicit Implementation(const FramePlanRequest& request) : planner(request) {}
  FramePlanner planner;
};

FrameFloor::FrameFloor(const FramePlanRequest& request)
    : implementation_(std::make_unique<Implementation>(request)) {}
FrameFloor::FrameFloor(FrameFloor&&) noexcept = default;
FrameFloor::~FrameFloor() = default;

Result<int64_t> FrameFloor::Of(std::span<const NodeId> nodes) {
  LAMINA_RETURN_IF_ERROR(implementation_->planner.FindBuffersOf(nodes));
  return implementation_->planner.Shares().total_bytes();
}

}  // namespace lamina
