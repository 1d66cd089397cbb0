#include "runtime/weight_traffic.h"

#include <algorithm>
#include <unordered_set>

namespace lamina {
namespace {

int64_t IntOr(const Node& node, const char* name, int64_t fallback) {
  const Attribute* attribute = node.FindAttribute(name);
  const auto* value = attribute ? std::get_if<int64_t>(&attribute->value) : nullptr;
  return value ? *value : fallback;
}

// Of a constant input, for one token.
double ShareReadByToken(const Step& step, size_t input) {
  const Value* constant = step.inputs[input].constant;
  return constant->is_tensor() ? ShareRead(*step.node, input, constant->tensor().shape(), 1) : 1.0;
}

}  // namespace

double ShareRead(const Node& node, size_t input, const Shape& shape, int64_t rows) {
  if (shape.rank() == 0) return 1.0;
  const bool is_block_gather = node.op_type == "GatherBlockQuantized";
  int64_t entries = 0;    // that can be chosen
  int64_t chosen = rows;  // of them, at most
  if (is_block_gather || node.op_type == "Gather") {
    if (input == 1) return 1.0;
    int64_t axis = IntOr(node, is_block_gather ? "gather_axis" : "axis", 0);
    if (axis < 0) axis += shape.rank();
    if (axis < 0 || axis >= shape.rank()) return 1.0;
    entries = shape[static_cast<int>(axis)];
  } else if ((node.op_type == "MoE" || node.op_type == "QMoE") && input >= 2) {
    entries = shape[0];
    chosen = rows * IntOr(node, "k", 1);
  } else {
    return 1.0;
  }
  return std::min(1.0, static_cast<double>(chosen) / static_cast<double>(std::max<int64_t>(entries, 1)));
}

uint64_t WeightBytesPerToken(const Executable& executable) {
  double total = 0;
  // A constant that several kernels read unpacked is read once from memory at best.
  std::unordered_set<const Value*> counted;
  for (const Step& step : executable.steps()) {
    for (size_t input = 0; input < step.inputs.size(); ++input) {
      const Value* constant = step.inputs[input].constant;
      if (!constant) continue;
      if (step.packed[input].data) {
        total += ShareReadByToken(step, input) * static_cast<double>(step.packed[input].size_bytes);
      } else if (constant->is_tensor() && !step.released_inputs[input] && counted.insert(constant).second) {
        total += ShareReadByToken(step, input) * static_cast<double>(constant->tensor().size_bytes());
      }
    }
  }
  return static_cast<uint64_t>(total);
}

}  // namespace lamina
