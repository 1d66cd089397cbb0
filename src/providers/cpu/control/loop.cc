// If and Loop: run their subgraphs through the context. What a subgraph hands back is owned by the values it
// returns, so that it can be passed on to outputs and to the next trip.
#include "providers/cpu/control/scan_axis.h"

namespace lamina {
namespace {

Result<bool> ReadCondition(const Value& value) {
  if (!value.is_tensor() || value.tensor().type() != DataType::kBool || value.tensor().num_elements() != 1) {
    return InvalidArgumentError("a condition must be one bool, found {}", value.type().ToString());
  }
  return *value.tensor().data<bool>();
}

Status CheckCount(const std::vector<Value>& outputs, int expected, std::string_view graph) {
  if (static_cast<int>(outputs.size()) == expected) return Status();
  return InvalidArgumentError("the graph {} has {} outputs, {} are needed", graph, outputs.size(), expected);
}

class If : public Kernel {
 public:
  explicit If(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const bool condition, ReadCondition(context.InputValue(0)));
    const std::string_view branch = condition ? "then_branch" : "else_branch";
    std::vector<Value> outputs;
    LAMINA_RETURN_IF_ERROR(context.RunSubgraph(branch, {}, &outputs));
    LAMINA_RETURN_IF_ERROR(CheckCount(outputs, context.num_outputs(), branch));
    for (int i = 0; i < context.num_outputs(); ++i) {
      LAMINA_RETURN_IF_ERROR(context.SetOutputValue(i, std::move(outputs[static_cast<size_t>(i)])));
    }
    return Status();
  }
};

// Inputs: trip count, condition (both optional), loop-carried values. Body: (trip, condition, carried...) ->
// (condition, carried..., scan outputs...).
class Loop : public Kernel {
 public:
  explicit Loop(const NodeInfo& node) : empty_shapes_(EmptyScanShapes(node)) {}

  Status Compute(KernelContext& context) const override {
    int64_t trips = std::numeric_limits<int64_t>::max();
    if (const Tensor* count = context.Input(0)) {
      LAMINA_ASSIGN_OR_RETURN(trips, ReadInt(*count));
    }
    bool running = true;
    if (context.num_inputs() > 1 && context.InputValue(1).defined()) {
      LAMINA_ASSIGN_OR_RETURN(running, ReadCondition(context.InputValue(1)));
    }
    const int carried = std::max(0, context.num_inputs() - 2);
    std::vector<Value> inputs(static_cast<size_t>(carried) + 2);
    for (int i = 0; i < carried; ++i) inputs[static_cast<size_t>(i) + 2] = context.InputValue(i + 2);
    std::vector<std::vector<Value>> scans(static_cast<size_t>(std::max(0, context.num_outputs() - carried)));
    std::vector<Value> outputs;
    for (int64_t trip = 0; trip < trips && running; ++trip) {
      if (context.cancelled()) return CancelledError("cancelled in trip {} of a loop", trip);
      LAMINA_ASSIGN_OR_RETURN(Tensor trip_number, context.AllocateHost(DataType::kInt64, {}));
      *trip_number.mutable_data<int64_t>() = trip;
      LAMINA_ASSIGN_OR_RETURN(Tensor condition, context.AllocateHost(DataType::kBool, {}));
      *condition.mutable_data<bool>() = running;
      inputs[0] = Value(std::move(trip_number));
      inputs[1] = Value(std::move(condition));
      outputs.clear();
      LAMINA_RETURN_IF_ERROR(context.RunSubgraph("body", inputs, &outputs));
      LAMINA_RETURN_IF_ERROR(CheckCount(outputs, 1 + carried + static_cast<int>(scans.size()), "body"));
      LAMINA_ASSIGN_OR_RETURN(running, ReadCondition(outputs[0]));
      for (size_t i = 0; i < static_cast<size_t>(carried); ++i) inputs[i + 2] = std::move(outputs[i + 1]);
      for (size_t i = 0; i < scans.size(); ++i) {
        scans[i].push_back(std::move(outputs[1 + static_cast<size_t>(carried) + i]));
      }
    }
    for (int i = 0; i < carried && i < context.num_outputs(); ++i) {
      LAMINA_RETURN_IF_ERROR(context.SetOutputValue(i, std::move(inputs[static_cast<size_t>(i) + 2])));
    }
    for (size_t i = 0; i < scans.size(); ++i) {
      const int output = carried + static_cast<int>(i);
      LAMINA_RETURN_IF_ERROR(
          StackScanOutput(context, output, scans[i], {}, empty_shapes_[static_cast<size_t>(output)]));
    }
    return Status();
  }

 private:
  std::vector<Shape> empty_shapes_;  // of the outputs, should there be no trip
};

}  // namespace

void RegisterControlFlowKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("If").HostInput(0), CreateKernel<If>);
  registry.Add(KernelDef("Loop").HostInput(0).HostInput(1), CreateKernel<Loop>);
}

}  // namespace lamina
