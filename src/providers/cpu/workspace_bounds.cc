#include "providers/cpu/workspace_bounds.h"

#include "base/error.h"
#include "base/os.h"

namespace lamina {
namespace {

Result<Shape> LargestShape(const NodeInfo& node, const ShapeBounds* bounds, const char* what, int index) {
  if (!bounds)
    return UnsupportedError("node '{}': the shape of {} {} is not known", node.name(), what, index);
  if (!bounds->bounded()) {
    return UnsupportedError("node '{}': a dimension of {} {} has no upper bound", node.name(), what, index);
  }
  return bounds->Max();
}

Result<int64_t> Elements(const NodeInfo& node, const Result<Shape>& shape) {
  LAMINA_RETURN_IF_ERROR(shape.status());
  if (!TensorBytes(DataType::kDouble, *shape).ok()) {
    return UnsupportedError("node '{}': a shape of up to {} is too large", node.name(), shape->ToString());
  }
  return shape->num_elements();
}

}  // namespace

Result<Shape> LargestInputShape(const NodeInfo& node, int input) {
  return LargestShape(node, node.input_bounds(input), "input", input);
}

Result<Shape> LargestOutputShape(const NodeInfo& node, int output) {
  return LargestShape(node, node.output_bounds(output), "output", output);
}

Result<int64_t> LargestInputElements(const NodeInfo& node, int input) {
  return Elements(node, LargestInputShape(node, input));
}

Result<int64_t> LargestOutputElements(const NodeInfo& node, int output) {
  return Elements(node, LargestOutputShape(node, output));
}

int WorkerLanes(const NodeInfo& node) {
  const int described = node.device().multiprocessors;
  if (described > 0) return described;
  static const int cores = AvailableCores();  // reads files: not for every node of a plan
  return cores;
}

}  // namespace lamina
