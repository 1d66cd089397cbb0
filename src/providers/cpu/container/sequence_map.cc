// SequenceMap: applies a graph to every item of a sequence.
#include <vector>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Input 0 is a sequence; further inputs are sequences of the same length, walked along with it, or tensors,
// the same for every item. Each output of the body becomes a sequence.
class SequenceMap : public Kernel {
 public:
  explicit SequenceMap(const NodeInfo& node) {
    for (int i = 0; i < node.num_outputs(); ++i) elements_.push_back(node.output_type(i).element);
  }

  Status Compute(KernelContext& context) const override {
    const Value& first = context.InputValue(0);
    if (first.kind() != ValueKind::kSequence) {
      return InvalidArgumentError("input 0 must be a sequence, found {}", first.type().ToString());
    }
    const size_t length = first.sequence().items.size();
    std::vector<Sequence> results(elements_.size());
    for (size_t i = 0; i < results.size(); ++i) results[i].element = elements_[i];
    std::vector<Value> inputs(static_cast<size_t>(context.num_inputs()));
    std::vector<Value> outputs;
    for (size_t item = 0; item < length; ++item) {
      if (context.cancelled()) return CancelledError("cancelled at item {} of a sequence", item);
      for (int i = 0; i < context.num_inputs(); ++i) {
        const Value& value = context.InputValue(i);
        if (value.kind() == ValueKind::kSequence) {
          if (value.sequence().items.size() != length) {
            return InvalidArgumentError("the sequences have {} and {} items", length,
                                        value.sequence().items.size());
          }
          inputs[static_cast<size_t>(i)] = value.sequence().items[item];
        } else {
          inputs[static_cast<size_t>(i)] = value;
        }
      }
      outputs.clear();
      LAMINA_RETURN_IF_ERROR(context.RunSubgraph("body", inputs, &outputs));
      if (outputs.size() != results.size()) {
        return InvalidArgumentError("the body has {} outputs, {} are needed", outputs.size(), results.size());
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        // An output may be one of the inputs, whose memory belongs to the run.
        if (outputs[i].is_tensor()) {
          LAMINA_ASSIGN_OR_RETURN(Tensor copy, outputs[i].tensor().Clone());
          outputs[i] = Value(std::move(copy));
        }
        results[i].items.push_back(std::move(outputs[i]));
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      LAMINA_RETURN_IF_ERROR(context.SetOutputValue(static_cast<int>(i), Value(std::move(results[i]))));
    }
    return Status();
  }

 private:
  std::vector<DataType> elements_;  // of the outputs
};

}  // namespace

void RegisterSequenceMapKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("SequenceMap").Since(17), CreateKernel<SequenceMap>);
}

}  // namespace lamina
