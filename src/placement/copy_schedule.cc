#include "placement/copy_schedule.h"

#include <algorithm>
#include <unordered_map>

namespace lamina {
namespace {

constexpr int64_t kNever = -1;

class CopyScheduler {
 public:
  CopyScheduler(const Graph& graph, std::span<const NodeId> order, const PlacedGraph& placed, int32_t host)
      : graph_(graph), order_(order), placed_(placed), host_(host) {}

  CopySchedule Schedule() {
    FindUploads();
    FindCopySteps();
    FindWaits();
    FindLifetimes();
    return std::move(schedule_);
  }

 private:
  int64_t num_steps() const { return static_cast<int64_t>(order_.size()); }

  void Add(const CopyTask& task, int64_t issued_at) {
    copy_to_[task.destination] = static_cast<int32_t>(schedule_.copies.size());
    schedule_.copies.push_back(task);
    issued_at_.push_back(issued_at);
    waited_at_.push_back(kNever);
  }

  void FindUploads() {
    for (const ValueId id : graph_.inputs()) {
      if (placed_.DeviceOf(id) != host_) Add({id.index, id.index, host_, placed_.DeviceOf(id)}, 0);
    }
    schedule_.num_uploads = schedule_.copies.size();
  }

  void FindCopySteps() {
    schedule_.copy_of_step.assign(order_.size(), -1);
    for (size_t step = 0; step < order_.size(); ++step) {
      const Node& node = graph_.node(order_[step]);
      if (!IsCopy(node)) continue;
      schedule_.copy_of_step[step] = static_cast<int32_t>(schedule_.copies.size());
      const ValueId source = node.inputs[0];
      const ValueId destination = node.outputs[0];
      Add({source.index, destination.index, placed_.DeviceOf(source), placed_.DeviceOf(destination)},
          static_cast<int64_t>(step));
    }
  }

  void FindWaits() {
    schedule_.waits.resize(order_.size());
    const auto read = [&](ValueId id, size_t step) {
      if (!id.valid()) return;
      const auto copy = copy_to_.find(id.index);
      if (copy == copy_to_.end() || waited_at_[static_cast<size_t>(copy->second)] != kNever) return;
      waited_at_[static_cast<size_t>(copy->second)] = static_cast<int64_t>(step);
      schedule_.waits[step].push_back(copy->second);
    };
    for (size_t step = 0; step < order_.size(); ++step) {
      const Node& node = graph_.node(order_[step]);
      for (const ValueId input : node.inputs) read(input, step);
      for (const Graph* body : node.Subgraphs()) {
        for (const ValueInfo& value : body->values()) read(value.outer, step);
      }
    }
  }

  void FindLifetimes() {
    schedule_.live_until.assign(graph_.values().size(), 0);
    for (size_t copy = schedule_.num_uploads; copy < schedule_.copies.size(); ++copy) {
      const CopyTask& task = schedule_.copies[copy];
      int64_t& until = schedule_.live_until[static_cast<size_t>(task.source)];
      const int64_t waited_at = waited_at_[copy] == kNever ? num_steps() : waited_at_[copy];
      until = std::max(until, task.from == host_ ? DoneOnHost(task.to, waited_at) : waited_at);
    }
  }

  // The first step at which the host waits for something that `device` made after the step `waited_at`.
  int64_t DoneOnHost(int32_t device, int64_t waited_at) const {
    int64_t first = num_steps();
    for (size_t copy = schedule_.num_uploads; copy < schedule_.copies.size(); ++copy) {
      const CopyTask& task = schedule_.copies[copy];
      const bool follows = task.from == device && task.to == host_ && issued_at_[copy] > waited_at;
      if (follows && waited_at_[copy] != kNever) first = std::min(first, waited_at_[copy]);
    }
    return first;
  }

  const Graph& graph_;
  std::span<const NodeId> order_;
  const PlacedGraph& placed_;
  int32_t host_;
  CopySchedule schedule_;
  std::unordered_map<int32_t, int32_t> copy_to_;  // by destination value
  std::vector<int64_t> issued_at_;                // by copy: step
  std::vector<int64_t> waited_at_;                // by copy: step
};

}  // namespace

CopySchedule ScheduleCopies(const Graph& graph, std::span<const NodeId> order, const PlacedGraph& placed,
                            int32_t host) {
  return CopyScheduler(graph, order, placed, host).Schedule();
}

}  // namespace lamina
