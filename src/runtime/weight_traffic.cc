#include "runtime/weight_traffic.h"

#include <algorithm>
#include <unordered_set>

namespace lamina {
namespace {

// The share of a constant input that one token reads.
double ShareRead(const Step& step, size_t input) {
  const Node& node = *step.node;
  const bool looked_up = node.op_type == "Gather" || node.op_type == "GatherBlockQuantized";
  const Value* constant = step.inputs[input].constant;
  if (looked_up && input != 1 && constant->is_tensor() && constant->tensor().shape().rank() > 0) {
    return 1.0 / static_cast<double>(std::max<int64_t>(constant->tensor().shape()[0], 1));
  }
  if ((node.op_type == "MoE" || node.op_type == "QMoE") && input >= 2) {
    const Attribute* chosen = node.FindAttribute("k");
    const auto* k = chosen ? std::get_if<int64_t>(&chosen->value) : nullptr;
    const int64_t experts = constant->tensor().shape().rank() > 0 ? constant->tensor().shape()[0] : 1;
    return std::min(1.0,
                    static_cast<double>(k ? *k : 1) / static_cast<double>(std::max<int64_t>(experts, 1)));
  }
  return 1.0;
}

}  // namespace

uint64_t WeightBytesPerToken(const Executable& executable) {
  double total = 0;
  // A constant that several kernels read unpacked is read once from memory at best.
  std::unordered_set<const Value*> counted;
  for (const Step& step : executable.steps()) {
    for (size_t input = 0; input < step.inputs.size(); ++input) {
      const Value* constant = step.inputs[input].constant;
      if (!constant) continue;
      if (step.packed[input].data) {
        // Of a weight that was packed on a device the original is gone.
        total += (constant->is_tensor() ? ShareRead(step, input) : 1.0) *
                 static_cast<double>(step.packed[input].size_bytes);
      } else if (constant->is_tensor() && !step.released_inputs[input] && counted.insert(constant).second) {
        total += ShareRead(step, input) * static_cast<double>(constant->tensor().size_bytes());
      }
    }
  }
  return static_cast<uint64_t>(total);
}

}  // namespace lamina
