// Scan. Inputs: (before opset 9 sequence lengths,) states, scanned tensors. Body: (states..., slices...) ->
// (states..., slices of scan outputs...). Before opset 9 the first axis of everything is a batch.
#include "providers/cpu/control/scan_axis.h"

namespace lamina {
namespace {

std::vector<int64_t> IntsOf(const NodeInfo& node, std::string_view attribute) {
  const auto values = node.Ints(attribute);
  return {values.begin(), values.end()};
}

int64_t ValueOr(const std::vector<int64_t>& list, size_t index, int64_t absent) {
  return index < list.size() ? list[index] : absent;
}

// What is scanned: a tensor, its axis, and from which end.
struct ScannedInput {
  Tensor tensor;
  int axis = 0;
  bool backwards = false;
};

class Scan : public Kernel {
 public:
  explicit Scan(const NodeInfo& node)
      : batched_(node.opset_version() < 9),
        scanned_(static_cast<int>(node.Int("num_scan_inputs", 0))),
        input_axes_(IntsOf(node, "scan_input_axes")),
        input_directions_(IntsOf(node, batched_ ? "directions" : "scan_input_directions")),
        output_axes_(IntsOf(node, "scan_output_axes")),
        output_directions_(IntsOf(node, "scan_output_directions")),
        empty_shapes_(EmptyScanShapes(node)) {}
  static Status Validate(const NodeInfo& node) {
    const int64_t scanned = node.Int("num_scan_inputs", 0);
    const int available = node.num_inputs() - (node.opset_version() < 9 ? 1 : 0);
    if (scanned >= 1 && scanned <= available) return Status();
    return InvalidModelError("num_scan_inputs is {} of {} inputs", scanned, available);
  }

  Status Compute(KernelContext& context) const override {
    return batched_ ? ComputeBatched(context) : ComputeOne(context);
  }

 private:
  Status ComputeOne(KernelContext& context) const {
    const int states = context.num_inputs() - scanned_;
    std::vector<Value> state_values;
    for (int i = 0; i < states; ++i) state_values.push_back(context.InputValue(i));
    std::vector<ScannedInput> inputs;
    for (int i = 0; i < scanned_; ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* tensor, RequireInput(context, states + i));
      const auto at = static_cast<size_t>(i);
      LAMINA_ASSIGN_OR_RETURN(const int axis,
                              NormalizeAxis(ValueOr(input_axes_, at, 0), tensor->shape().rank()));
      inputs.push_back({*tensor, axis, ValueOr(input_directions_, at, 0) != 0});
    }
    const int64_t steps = inputs[0].tensor.shape()[inputs[0].axis];
    for (const ScannedInput& input : inputs) {
      if (input.tensor.shape()[input.axis] != steps) {
        return InvalidArgumentError("the scanned inputs have {} and {} steps", steps,
                                    input.tensor.shape()[input.axis]);
      }
    }
    std::vector<std::vector<Value>> scans;
    LAMINA_RETURN_IF_ERROR(RunSteps(context, inputs, steps, &state_values, &scans));
    for (int i = 0; i < states; ++i) {
      LAMINA_RETURN_IF_ERROR(context.SetOutputValue(i, std::move(state_values[static_cast<size_t>(i)])));
    }
    for (size_t i = 0; i < scans.size(); ++i) {
      const ScanDirection direction{ValueOr(output_axes_, i, 0), ValueOr(output_directions_, i, 0) != 0};
      const size_t output = static_cast<size_t>(states) + i;
      LAMINA_RETURN_IF_ERROR(
          StackScanOutput(context, static_cast<int>(output), scans[i], direction, empty_shapes_[output]));
    }
    return Status();
  }

  // Runs every sequence of the batch, then stacks the results; steps past a sequence's length are zero.
  Status ComputeBatched(KernelContext& context) const {
    const int states = context.num_inputs() - 1 - scanned_;
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, RequireInput(context, 1 + states));
    if (first->shape().rank() < 2) return InvalidArgumentError("scanned inputs need batch and sequence axes");
    const int64_t batch = first->shape()[0];
    const int64_t steps = first->shape()[1];
    const Tensor* lengths = context.Input(0);
    if (lengths && (lengths->type() != DataType::kInt64 || lengths->num_elements() != batch)) {
      return InvalidArgumentError("sequence_lens must hold one int64 for each of {} sequences", batch);
    }
    std::vector<std::vector<Value>> results(static_cast<size_t>(context.num_outputs()));
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths ? lengths->data<int64_t>()[b] : steps;
      if (length < 0 || length > steps)
        return InvalidArgumentError("a sequence of {} of {} steps", length, steps);
      std::vector<Value> state_values;
      std::vector<ScannedInput> inputs;
      for (int i = 0; i < states + scanned_; ++i) {
        LAMINA_ASSIGN_OR_RETURN(const Tensor* tensor, RequireInput(context, 1 + i));
        const Shape& shape = tensor->shape();
        const bool scanned = i >= states;
        if (shape.rank() < (scanned ? 2 : 1) || shape[0] != batch || (scanned && shape[1] != steps)) {
          return InvalidArgumentError("input {} has shape {}, not {} sequences of {} steps", 1 + i,
                                      shape.ToString(), batch, steps);
        }
        LAMINA_ASSIGN_OR_RETURN(Tensor slice, SliceAlong(context, *tensor, 0, b));
        if (scanned) {
          const bool backwards = ValueOr(input_directions_, static_cast<size_t>(i - states), 0) != 0;
          inputs.push_back({std::move(slice), 0, backwards});
        } else {
          state_values.emplace_back(std::move(slice));
        }
      }
      std::vector<std::vector<Value>> scans;
      LAMINA_RETURN_IF_ERROR(RunSteps(context, inputs, length, &state_values, &scans));
      for (size_t i = 0; i < state_values.size(); ++i) results[i].push_back(std::move(state_values[i]));
      for (size_t i = 0; i < scans.size(); ++i) {
        LAMINA_ASSIGN_OR_RETURN(Tensor stacked, StackPadded(context, scans[i], steps));
        results[static_cast<size_t>(states) + i].emplace_back(std::move(stacked));
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      LAMINA_RETURN_IF_ERROR(StackScanOutput(context, static_cast<int>(i), results[i], {}, empty_shapes_[i]));
    }
    return Status();
  }

  // Runs the body `steps` times; `states` are the last ones afterwards, `scans` one list for each scan
  // output.
  Status RunSteps(KernelContext& context, const std::vector<ScannedInput>& scanned, int64_t steps,
                  std::vector<Value>* states, std::vector<std::vector<Value>>* scans) const {
    const size_t state_count = states->size();
    scans->resize(static_cast<size_t>(context.num_outputs()) - state_count);
    std::vector<Value> inputs(state_count + scanned.size());
    std::vector<Value> outputs;
    for (int64_t step = 0; step < steps; ++step) {
      if (context.cancelled()) return CancelledError("cancelled in step {} of a scan", step);
      for (size_t i = 0; i < state_count; ++i) inputs[i] = std::move((*states)[i]);
      for (size_t i = 0; i < scanned.size(); ++i) {
        const int64_t extent = scanned[i].tensor.shape()[scanned[i].axis];
        // Backwards a shorter sequence begins at its own end.
        const int64_t index = scanned[i].backwards ? std::min(steps, extent) - 1 - step : step;
        LAMINA_ASSIGN_OR_RETURN(Tensor slice, SliceAlong(context, scanned[i].tensor, scanned[i].axis, index));
        inputs[state_count + i] = Value(std::move(slice));
      }
      outputs.clear();
      LAMINA_RETURN_IF_ERROR(context.RunSubgraph("body", inputs, &outputs));
      if (outputs.size() != state_count + scans->size()) {
        return InvalidArgumentError("the body has {} outputs, {} are needed", outputs.size(),
                                    state_count + scans->size());
      }
      for (size_t i = 0; i < state_count; ++i) (*states)[i] = std::move(outputs[i]);
      for (size_t i = 0; i < scans->size(); ++i) (*scans)[i].push_back(std::move(outputs[state_count + i]));
    }
    return Status();
  }

  bool batched_;
  int scanned_;
  std::vector<int64_t> input_axes_;
  std::vector<int64_t> input_directions_;
  std::vector<int64_t> output_axes_;
  std::vector<int64_t> output_directions_;
  std::vector<Shape> empty_shapes_;
};

}  // namespace

void RegisterScanKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Scan").Since(8), CreateKernel<Scan>);
}

}  // namespace lamina
